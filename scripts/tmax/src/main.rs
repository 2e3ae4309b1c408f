use tmax::storm::*;
use std::time::Duration;
fn main() {
    let secs: f64 = std::env::args().nth(1).map_or(0.3, |s| s.parse().unwrap());
    let t = Duration::from_secs_f64(secs);
    for round in 0..3 { for (burst, gap) in [(0,0), (0,1), (3,0),(3,30),(3,100), (15,0), (15,30), (15,100), (15, 200), (15, 400), (15,1000)] {
    for (shape, lead) in [(Shape::Immediate, 32), (Shape::Move, 32)] {
        let mut sum = Tally::default();
        for k in 0..2 { for at in 1..=4 {
            let target = Target::new(shape, Placement::Astride{boundary: lead, before:at}).unwrap();
            sum.add(&Storm::new().unwrap().seed(k).run(&target, Budget::time(t), |to| {
                for _ in 0..burst { 
                target.store_whole(to);
                wordpatch::Ticks::spin(wordpatch::Ticks(gap));
                target.store_whole(to.other());
                wordpatch::Ticks::spin(wordpatch::Ticks(gap));
                }
                target.store_whole(to);
            }).unwrap());
        }}
        let tally = &sum;
            println!("{burst} {gap} {shape:?} {lead}: counted {} uncounted {} torn {} execs {}  {:?} ", tally.counted, tally.uncounted, tally.torn, tally.log.executions(), tally.log.torn);
    }
    }}
}
