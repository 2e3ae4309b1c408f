//! How many calls are left out before one that is timed: geometric numbers, drawn from tables by
//! the stubs.
//!
//! A table holds 256 equally likely values of the distribution, so that a draw is a multiplication,
//! a shift and a load. The entry after them says which drawn call of a term is not timed: in its
//! place the enter stub continues at the exit stub, so that the null is measured where calls are
//! timed.

use std::sync::LazyLock;

/// The means that have tables; the nearest is used.
const MEANS: [f64; 9] = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0];

/// Values of a table: a byte draws one.
pub(crate) const DRAWS: usize = 256;

/// Values, and which drawn call is replaced by a null: the one that leaves so many of the quota.
pub(crate) type Table = [u16; DRAWS + 1];

/// Every term has a null, except for the shortest.
const NULL_LEAVES: u16 = 5;
/// Of no call: no quota is left where one is drawn that is larger.
const NEVER: u16 = u16::MAX;

static TABLES: LazyLock<[Table; MEANS.len()]> = LazyLock::new(|| MEANS.map(table));

/// The value that each of 256 equally likely parts of the distribution has in its middle.
fn table(mean: f64) -> Table {
    let leave = mean / (mean + 1.0);
    std::array::from_fn(|i| {
        if i == DRAWS {
            return if mean == 0.0 { NEVER } else { NULL_LEAVES };
        }
        let share = (i as f64 + 0.5) / DRAWS as f64;
        if mean == 0.0 {
            0
        } else {
            ((1.0 - share).ln() / leave.ln()).floor().min(f64::from(u16::MAX)) as u16
        }
    })
}

/// The table for a mean number of calls left out.
pub(crate) fn table_for(mean: f64) -> *mut Table {
    if let Some(known) = MEANS.iter().position(|&known| known == mean) {
        return std::ptr::from_ref(&TABLES[known]).cast_mut();
    }
    let distance = |of: f64| (of.ln_1p() - mean.ln_1p()).abs();
    let nearest = (0..MEANS.len())
        .min_by(|&a, &b| distance(MEANS[a]).total_cmp(&distance(MEANS[b])))
        .unwrap_or(0);
    std::ptr::from_ref(&TABLES[nearest]).cast_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_mean_it_is_asked_for() {
        for mean in MEANS {
            // SAFETY: (1) a static table.
            #[allow(unsafe_code)]
            let table = unsafe { &*table_for(mean) };
            let found =
                table[..DRAWS].iter().map(|&skip| f64::from(skip)).sum::<f64>() / DRAWS as f64;
            assert!((found - mean).abs() <= 0.02 * mean + 0.01, "{found} for {mean}");
        }
        assert!(
            std::ptr::eq(table_for(9.0), table_for(10.0))
                && std::ptr::eq(table_for(1e9), table_for(3_000.0))
        );
    }
}
