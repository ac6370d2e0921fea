//! Measures the slice conversions of the `half` crate, for those pairs of bench_convert that it
//! converts. Prints one line per pair and size: half PAIR BYTES SECONDS.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [64 << 10, 1 << 20, 16 << 20, 1 << 30];

/// Runs `work` at least 5 times and for at least 300 ms, and prints the shortest time.
fn measure(pair: &str, size: usize, mut work: impl FnMut()) {
    let (mut best, began) = (Duration::MAX, Instant::now());
    let mut rounds = 0;
    while rounds < 5 || began.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed());
        rounds += 1;
    }
    println!("half\t{}\t{}\t{:.9}", pair, size, best.as_secs_f64());
}

/// Returns numbers between -0.033 and 0.033, as the weights of a model are.
fn weights(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 65536) as f32 - 32768.0) * 1e-6).collect()
}

fn main() {
    for size in SIZES {
        let n = size / 4;
        let source: Vec<f32> = weights(n);
        let mut wide = vec![1f32; n];
        let b: Vec<bf16> = source.iter().map(|&x| bf16::from_f32(x)).collect();
        measure("BF16-F32", size, || black_box(&b).convert_to_f32_slice(black_box(&mut wide)));
        drop(b);
        let h: Vec<f16> = source.iter().map(|&x| f16::from_f32(x)).collect();
        measure("F16-F32", size, || black_box(&h).convert_to_f32_slice(black_box(&mut wide)));
        drop((h, wide, source));

        let n = size / 2;
        let source: Vec<f32> = weights(n);
        let mut b = vec![bf16::ONE; n];
        measure("F32-BF16", size, || black_box(&mut b).convert_from_f32_slice(black_box(&source)));
        drop(b);
        let mut h = vec![f16::ONE; n];
        measure("F32-F16", size, || black_box(&mut h).convert_from_f32_slice(black_box(&source)));
    }
}
