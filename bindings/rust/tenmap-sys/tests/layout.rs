//! Rust and C agree about the size, the alignment and the fields of every struct, and about the
//! value of every constant. The C program of `layout/layout.c` prints C's opinion, one line for
//! each; `layout/table.rs` has Rust's lines. `scripts/rust-declarations.py` writes both.

use std::mem::{align_of, offset_of, size_of, size_of_val};
use std::path::Path;
use std::process::Command;

use tenmap_sys::*;

#[rustfmt::skip]
#[path = "layout/table.rs"]
mod table;

fn layout<T>(name: &str) -> String {
    format!("{name} {} {}", size_of::<T>(), align_of::<T>())
}

fn field<T>(name: &str, offset: usize, size: impl Fn(&T) -> usize) -> String {
    // SAFETY: every struct consists of numbers, pointers and optional functions, which may be zero.
    let zero = unsafe { std::mem::zeroed::<T>() };
    format!("{name} {offset} {}", size(&zero))
}

fn value(name: &str, value: u64) -> String {
    format!("{name} {value}")
}

/// Compiles and runs the C program, and returns the lines that it prints.
fn lines_of_c() -> Vec<String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout");
    let compiler = cc::Build::new()
        .target(env!("TENMAP_SYS_TARGET"))
        .host(env!("TENMAP_SYS_HOST"))
        .opt_level(0)
        .cargo_metadata(false)
        .get_compiler();
    let compiled = compiler
        .to_command()
        .arg(format!("-I{}", env!("TENMAP_SYS_INCLUDE")))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout/layout.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the C compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = Command::new(&program).output().expect("the program runs");
    assert!(printed.status.success());
    String::from_utf8(printed.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn layouts_and_values_are_those_of_c() {
    let (c, rust) = (lines_of_c(), table::table());
    for (c, rust) in c.iter().zip(&rust) {
        assert_eq!(c, rust, "C on the left, Rust on the right");
    }
    assert_eq!(c.len(), rust.len());
    assert!(rust.len() > 300, "{} lines", rust.len());
    println!("{} layouts and values agree", rust.len());
}

#[test]
fn the_library_is_of_the_version_of_the_crate() {
    let version = [TENMAP_VERSION_MAJOR, TENMAP_VERSION_MINOR, TENMAP_VERSION_PATCH];
    let version = version.map(|part| part.to_string()).join(".");
    assert_eq!(env!("CARGO_PKG_VERSION").split('-').next(), Some(&version[..]));
    // SAFETY: the call has no conditions.
    assert_eq!(unsafe { tenmap_version() }, TENMAP_VERSION);
}

#[test]
fn options_start_with_their_size_and_zeros() {
    let options = TENMAP_OPTIONS_INIT;
    assert_eq!(options.struct_size, size_of::<tenmap_options>());
    assert_eq!((options.backend, options.flags, options.threads), (0, 0, 0));
    assert!(options.io.is_null());
    assert_eq!(TENMAP_WANT_LAYER(7), 8 << 8);
    assert_eq!(TENMAP_WANT_EXPERT(4094), 4095 << 20);
}
