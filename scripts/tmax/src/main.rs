use tmax::*;
use std::time::*;
use std::sync::atomic::AtomicBool;
fn main() {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, |_, _| ());
    let plan = Plan::quick(Duration::from_secs_f64(std::env::args().nth(1).unwrap().parse().unwrap()));
    let t = Instant::now();
    let o = measure::granule::measure(&plan, &watch).unwrap();
    println!("{:?} {:?} {:?}", t.elapsed(), o.granule(), o.0);
    let t = Instant::now();
    let o = measure::tears::measure(&plan, &watch).unwrap();
    for p in &o {println!("{:?} {:?} {:?} {} {} {} {:?}", p.case, p.position, p.wait, p.torn, p.toggles, p.uncounted, p.direction);}
    for c in measure::tears::Case::ALL { println!("{c:?} {:?}", measure::tears::Verdict::of(c, &o)); }
    println!("{:?}", t.elapsed());
    for c in measure::costs::measure(&plan, &watch).unwrap() { println!("{c:?}"); }
    println!("{:?}", t.elapsed());
    for c in measure::latency::measure(&plan, &watch).unwrap() { println!("{c:?}"); }
    println!("{:?}", t.elapsed());
    for c in measure::latent::measure(&plan, &watch).unwrap() { println!("{c:?}"); }
    println!("{:?}", t.elapsed());
}
