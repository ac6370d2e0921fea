//! Compiles the C library: `c/tenmap.c`, which a published crate contains, or the sources of the
//! repository that the crate lies in.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the C files to compile and the folder of `tenmap.h`.
fn sources(root: &Path) -> (Vec<PathBuf>, PathBuf) {
    if root.join("c/tenmap.c").exists() {
        return (vec![root.join("c/tenmap.c")], root.join("c"));
    }
    let repository = root.join("../../..");
    let layers = std::fs::read_dir(repository.join("src")).unwrap_or_else(|error| {
        panic!(
            "neither c/tenmap.c nor the sources of tenmap are here ({error}): run \
             scripts/bindings-tree.sh, which writes crates that contain the library"
        )
    });
    let mut files = Vec::new();
    for layer in layers.flatten() {
        for file in std::fs::read_dir(layer.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|ending| ending == "c") {
                files.push(file.path());
            }
        }
    }
    files.sort();
    println!("cargo::rerun-if-changed={}", repository.join("src").display());
    (files, repository.join("include"))
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let (files, include) = sources(&root);
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!("cargo::rerun-if-changed={}", include.display());
    let mut build = cc::Build::new();
    build
        .std("gnu11")
        .files(&files)
        .include(&include)
        .define("TENMAP_HIDDEN", None)
        .warnings(false);
    if env::var("OPT_LEVEL").as_deref() == Ok("0") {
        // Unoptimized conversions are several times slower, and nobody debugs them from Rust.
        build.opt_level(2);
    }
    build.compile("tenmap");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system == "linux" {
        println!("cargo::rustc-link-lib=pthread");
    }
    // For crates that compile C against this library: DEP_TENMAP_INCLUDE.
    println!("cargo::metadata=include={}", include.display());
    // For the test of layouts, which compiles a C program for the same target.
    println!("cargo::rustc-env=TENMAP_SYS_INCLUDE={}", include.display());
    println!("cargo::rustc-env=TENMAP_SYS_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=TENMAP_SYS_HOST={}", env::var("HOST").unwrap_or_default());
}
