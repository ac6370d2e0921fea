//! Declarations of tenmap's C API, and the library itself, which is
//! compiled into your program: there is nothing to install. The crate `tenmap` is the safe form of
//! this one.
//!
//! Everything has its name, its type and its comment from the C headers. The types of enumerators
//! are those of the fields and arguments that take them. `TENMAP_..._INIT` are constants to start
//! options from.
//!
//! ```
//! use std::ffi::CStr;
//!
//! // SAFETY: the name of a dtype is a static string.
//! let name = unsafe { CStr::from_ptr(tenmap_sys::tenmap_dtype_name(tenmap_sys::TENMAP_BF16)) };
//! assert_eq!(name, c"BF16");
//! // SAFETY: the call has no conditions.
//! assert_eq!(unsafe { tenmap_sys::tenmap_version() }, tenmap_sys::TENMAP_VERSION);
//! ```
//!
//! # What a caller must respect
//!
//! - Every view (tensor, shard, metadata, name, shape, data) belongs to its model and lives until
//!   `tenmap_close`. The library's own structs are handed out one pointer at a time, since they
//!   grow at the end: do not copy them out.
//! - A model is immutable once it is open. Any number of threads may use it; closing it needs
//!   exclusivity.
//! - If a mapped file shrinks, touching the lost part raises SIGBUS. `TENMAP_BACKEND_READ` returns
//!   an error instead.
//! - Callbacks must not unwind into C: a panic in an `extern "C"` function aborts the process.
#![no_std]
#![allow(non_camel_case_types, non_snake_case)]

#[rustfmt::skip]
mod declarations;
pub use declarations::*;

/// The version of these declarations, in the form that [`tenmap_version`] gives for the library:
/// major * 1,000,000 + minor * 1,000 + patch.
pub const TENMAP_VERSION: u32 =
    TENMAP_VERSION_MAJOR * 1_000_000 + TENMAP_VERSION_MINOR * 1_000 + TENMAP_VERSION_PATCH;
