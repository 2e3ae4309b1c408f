//! The shortest ways through a map: collections, traits, closures and formatting of Rust.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(i32, i32);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.0, self.1)
    }
}

trait Terrain {
    fn cost(&self, place: Place) -> Option<u32>;
}

struct Hills(i32);

impl Terrain for Hills {
    fn cost(&self, Place(x, y): Place) -> Option<u32> {
        let inside = (0..self.0).contains(&x) && (0..self.0).contains(&y);
        (inside && (x * 7 + y * 13) % 5 != 0 || (x, y) == (0, 0)).then(|| 1 + ((x * x + y * 3) % 9) as u32)
    }
}

struct Flat(i32);

impl Terrain for Flat {
    fn cost(&self, Place(x, y): Place) -> Option<u32> {
        ((0..self.0).contains(&x) && (0..self.0).contains(&y)).then_some(1)
    }
}

fn shortest(terrain: &dyn Terrain, from: Place, to: Place) -> Option<(u32, Vec<Place>)> {
    let mut best = BTreeMap::from([(from, (0, from))]);
    let mut heap = BinaryHeap::from([Reverse((0, from))]);
    while let Some(Reverse((cost, place))) = heap.pop() {
        if place == to {
            let mut way = VecDeque::from([to]);
            while way[0] != from {
                way.push_front(best[&way[0]].1);
            }
            return Some((cost, way.into()));
        }
        for (x, y) in [(1, 0), (0, 1), (-1, 0), (0, -1)] {
            let next = Place(place.0 + x, place.1 + y);
            let Some(step) = terrain.cost(next) else { continue };
            if best.get(&next).is_none_or(|(known, _)| cost + step < *known) {
                best.insert(next, (cost + step, place));
                heap.push(Reverse((cost + step, next)));
            }
        }
    }
    None
}

fn main() {
    let terrains: [(&str, Box<dyn Terrain>); 2] = [("hills", Box::new(Hills(24))), ("flat", Box::new(Flat(16)))];
    for (name, terrain) in &terrains {
        for to in [Place(11, 9), Place(15, 15), Place(23, 22)] {
            match shortest(&**terrain, Place(0, 0), to) {
                Some((cost, way)) => {
                    let middle = way[way.len() / 2];
                    println!("{name}: {to} costs {cost} in {} steps, by {middle}", way.len() - 1);
                }
                None => println!("{name}: no way to {to}"),
            }
        }
    }
    let text: String = (1..=20).map(|n| format!("{:x}", n * n * 12345 % 65521)).rev().collect::<Vec<_>>().join("-");
    let reading = text.split('-').map(|word| u32::from_str_radix(word, 16)).sum::<Result<u32, _>>();
    println!("{text} {reading:?}");
}
