//! Measures the steps that bench/open.c measures, with the reference crate:
//!
//!     bench-open-reference time FILE MILLISECONDS
//!     bench-open-reference memory FILE WARM_FILE
//!
//! It prints the same lines as bench/open.c, but they begin with `reference`.

use memmap2::Mmap;
use safetensors::SafeTensors;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

const REPEATS_AT_LEAST: usize = 5;
const STEPS: usize = 4;

fn map(path: &str) -> Result<Mmap, Box<dyn Error>> {
    let file = File::open(path)?;
    // SAFETY: nothing changes the files while the benchmark runs.
    Ok(unsafe { Mmap::map(&file)? })
}

/// Returns the next number of the same sequence as `shuffle_next` in bench/timing.c.
fn shuffle_next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// Returns the names of the tensors of a file, in the same shuffled order as in bench/open.c.
fn shuffled_names(path: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let bytes = map(path)?;
    let model = SafeTensors::deserialize(&bytes)?;
    let mut names: Vec<String> = model.names().iter().map(|name| name.to_string()).collect();
    names.sort();
    let mut state = 1;
    for i in (2..=names.len()).rev() {
        let j = (shuffle_next(&mut state) % i as u64) as usize;
        names.swap(i - 1, j);
    }
    // The copies are in memory in this order, as in bench/open.c.
    Ok(names.iter().map(|name| name.as_str().to_owned()).collect())
}

/// Opens a file, finds every name and closes the file. Returns the nanoseconds of each of these
/// steps and of all together.
fn time_once(path: &str, names: &[String]) -> Result<[u128; STEPS], Box<dyn Error>> {
    let start = Instant::now();
    let bytes = map(path)?;
    let model = SafeTensors::deserialize(&bytes)?;
    let opened = Instant::now();
    for name in names {
        black_box(model.tensor(name)?);
    }
    let looked = Instant::now();
    drop(model);
    drop(bytes);
    let closed = Instant::now();
    Ok([
        (opened - start).as_nanos(),
        (looked - opened).as_nanos(),
        (closed - looked).as_nanos(),
        (closed - start).as_nanos(),
    ])
}

/// Repeats `time_once` for `milliseconds`. Prints the shortest and the median time of each step.
fn print_time(path: &str, milliseconds: u64) -> Result<(), Box<dyn Error>> {
    let names = shuffled_names(path)?;
    let mut rounds = Vec::new();
    let until = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < until || rounds.len() < REPEATS_AT_LEAST {
        rounds.push(time_once(path, &names)?);
    }
    print!("reference {path} time {}", rounds.len());
    for step in 0..STEPS {
        let mut times: Vec<u128> = rounds.iter().map(|round| round[step]).collect();
        times.sort_unstable();
        print!(" {} {}", times[0], times[times.len() / 2]);
    }
    println!();
    Ok(())
}

/// Returns the value of a field of /proc/self/status, in bytes, or 0 if there is none.
fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .filter_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .next()
        .map_or(0, |kib| kib * 1024)
}

/// Prints how many bytes of memory an open adds, resident and at the peak. Opens a small model
/// first, so that the pages of the program itself do not count.
fn print_memory(path: &str, warm_path: &str) -> Result<(), Box<dyn Error>> {
    {
        let bytes = map(warm_path)?;
        black_box(SafeTensors::deserialize(&bytes)?);
    }
    status_bytes("VmRSS");
    // Resets the peak to what is resident now, if the kernel allows it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status_bytes("VmRSS");
    let bytes = map(path)?;
    let model = SafeTensors::deserialize(&bytes)?;
    let (after, peak) = (status_bytes("VmRSS"), status_bytes("VmHWM"));
    black_box(&model);
    println!(
        "reference {path} memory {} {}",
        after.saturating_sub(before),
        peak.saturating_sub(before)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[1..] {
        ["time", path, milliseconds] => print_time(path, milliseconds.parse()?),
        ["memory", path, warm_path] => print_memory(path, warm_path),
        _ => {
            Err("usage: bench-open-reference time FILE MILLISECONDS | memory FILE WARM_FILE".into())
        }
    }
}
