//! Cycles: functions that call each other, directly or indirectly.
//!
//! These are the strongly connected components of the call graph (Kosaraju's algorithm, Sharir
//! 1981), found without recursion: a program's call graph may be deep.

/// For each function the number of its cycle, from 1; `None` if it is in none. A function that
/// calls only itself is in none.
pub(crate) fn cycles(callees: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut callers = vec![Vec::new(); callees.len()];
    for (caller, list) in callees.iter().enumerate() {
        list.iter().for_each(|&callee| callers[callee].push(caller));
    }
    let mut done = vec![false; callees.len()];
    let mut order = Vec::with_capacity(callees.len());
    for root in 0..callees.len() {
        visit(root, callees, &mut done, &mut order);
    }
    let (mut found, mut of) = (0, vec![None; callees.len()]);
    done.fill(false);
    for root in order.into_iter().rev() {
        let mut members = Vec::new();
        visit(root, &callers, &mut done, &mut members);
        if members.len() > 1 {
            found += 1;
            members.into_iter().for_each(|member| of[member] = Some(found));
        }
    }
    of
}

/// Appends all nodes that can be reached and are not done, in postorder.
fn visit(root: usize, edges: &[Vec<usize>], done: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut done[root], true) {
        return;
    }
    let mut path = vec![(root, 0)];
    while let Some((at, next)) = path.last_mut() {
        match edges[*at].get(*next) {
            Some(&to) => {
                *next += 1;
                if !std::mem::replace(&mut done[to], true) {
                    path.push((to, 0));
                }
            }
            None => {
                order.push(*at);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_reach_each_other_are_in_a_cycle() {
        // 0 → 1 ⇄ 2 → 3 → 3, 4 → 5 → 6 → 4.
        let found = cycles(&[vec![1], vec![2], vec![1, 3], vec![3], vec![5], vec![6], vec![4]]);
        assert_eq!((found[0], found[3]), (None, None));
        assert!(
            found[1].is_some()
                && found[1] == found[2]
                && found[4] == found[5]
                && found[5] == found[6]
                && found[1] != found[4]
        );
    }

    #[test]
    fn a_deep_graph_needs_no_deep_stack() {
        let chain: Vec<Vec<usize>> =
            (0..200_000).map(|at| if at < 199_999 { vec![at + 1] } else { vec![0] }).collect();
        assert!(cycles(&chain).iter().all(|cycle| *cycle == Some(1)));
    }
}
