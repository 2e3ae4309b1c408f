//! The standard library of Rust: files, directories, time, input, environment.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

fn files() -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open("file")?;
    for number in 0..1000 {
        writeln!(file, "line {number}")?;
    }
    file.seek(SeekFrom::Start(7))?;
    let mut line = String::new();
    BufReader::new(&file).read_line(&mut line)?;
    print!("{line}");
    file.set_len(70)?;
    println!("{} {:?}", file.metadata()?.len(), fs::read_to_string("file")?.lines().last());
    file.sync_all()?;
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    file.set_modified(time)?;
    println!("{}", fs::metadata("file")?.modified()? == time);
    let mut appended = OpenOptions::new().append(true).open("file")?;
    appended.write_all(b"end")?;
    println!("{}", fs::copy("file", "copy")?);
    fs::rename("copy", "moved")?;
    println!("{:?}", File::open("copy").map(drop).map_err(|error| error.kind()));
    println!("{:?}", OpenOptions::new().write(true).create_new(true).open("moved").map(drop).map_err(|error| error.kind()));
    Ok(())
}

fn listed(path: &Path, depth: usize) -> io::Result<()> {
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let kind = entry.file_type()?;
        let kind = if kind.is_dir() { "dir" } else if kind.is_symlink() { "link" } else { "file" };
        println!("{:depth$}{} {kind}", "", entry.file_name().display());
        if kind == "dir" {
            listed(&entry.path(), depth + 2)?;
        }
    }
    Ok(())
}

fn directories() -> io::Result<()> {
    fs::create_dir_all("a/b/c")?;
    fs::write("a/b/c/deep", "deep")?;
    fs::write("a/shallow", "shallow")?;
    fs::hard_link("a/shallow", "a/b/again")?;
    listed(Path::new("."), 0)?;
    println!("{} {}", fs::remove_dir("a").is_err(), fs::remove_file("a/b/c").is_err());
    println!("{:?}", fs::create_dir("a").map_err(|error| error.kind()));
    fs::remove_dir_all("a")?;
    println!("{}", Path::new("a").exists());
    Ok(())
}

fn times() {
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(10));
    println!("slept {}", start.elapsed() >= Duration::from_millis(10));
    println!("since 1970 {}", SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.as_secs() > 1_700_000_000));
}

fn collections() {
    let mut counted = HashMap::new();
    for word in "the quick brown fox jumps over the lazy dog and the cat".split(' ') {
        *counted.entry(word).or_insert(0) += 1;
    }
    println!("{:?}", counted.into_iter().collect::<BTreeMap<_, _>>());
}

fn main() -> io::Result<()> {
    println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>());
    println!("{:?} {:?}", std::env::var("NAME"), std::env::var("NONE"));
    println!("{}", io::stdin().is_terminal());
    let mut input = String::new();
    io::stdin().read_to_string(&mut input)?;
    println!("{} bytes, {} lines", input.len(), input.lines().count());
    files()?;
    directories()?;
    times();
    collections();
    io::stderr().write_all(b"to the other stream\n")?;
    std::process::exit(i32::from(input.len() as u8 % 100));
}
