#![allow(unsafe_code, missing_docs, clippy::all)]
use wordpatch::*;
fn main(){
 let mut m=CodeMemory::new(8192).unwrap();
 m.write(0,&[0x90;64]);
 let p=Policy::new().unwrap();
 let site=unsafe{PatchSite::adopt(m.base().offset(8),8,Layout::One,&p)}.unwrap();
 let w=[Word::from_u64(0x1111111111111111,8).unwrap(),Word::from_u64(0x2222222222222222,8).unwrap()];
 for _ in 0..3{
 let n=10_000_000u64; let t=Ticks::now();
 for i in 0..n{unsafe{site.patch(w[(i&1) as usize]).unwrap()}}
 println!("within {:.1}",Ticks::now().since(t).0 as f64/n as f64);
 let t=Ticks::now();
 for i in 0..n{unsafe{live::store(m.writable(8),live::Width::Eight,i)}}
 println!("store {:.1}",Ticks::now().since(t).0 as f64/n as f64);
 }
 let s=unsafe{PatchSite::adopt(m.base().offset(62),5,Layout::One,&p)}.unwrap();
 let w=[Word::from_u64(0x1313121110b8,5).unwrap(),Word::from_u64(0xe3e2e1e0b9,5).unwrap()];
 let n=100_000u64; let t=Ticks::now();
 for i in 0..n{unsafe{s.patch(w[(i&1) as usize]).unwrap()}}
 println!("straddler {:.1}",Ticks::now().since(t).0 as f64/n as f64);
 let t=Ticks::now();
 for _ in 0..n{p.barrier.pass().unwrap()}
 println!("barrier {:.1}",Ticks::now().since(t).0 as f64/n as f64);
 let mut tot=0; let t=Ticks::now();
 for i in 0..n{let a=Ticks::now(); let q=unsafe{s.start(w[(i&1) as usize]).unwrap()}; tot+=Ticks::now().since(a).0; q.finish().unwrap();}
 println!("start {:.1} whole {:.1}",tot as f64/n as f64, Ticks::now().since(t).0 as f64/n as f64);
 let t=Ticks::now();
 for _ in 0..n{let b=os::signals::Blocked::all(); drop(b);}
 println!("blocked {:.1}",Ticks::now().since(t).0 as f64/n as f64);
}
