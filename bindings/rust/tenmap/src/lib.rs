//! Model weights in the SafeTensors, GGUF and PyTorch formats, memory-mapped.
//!
//! A model is one file, an index with its shards, or a folder. All three open the same way.
//! Opening reads the header and no tensor data. Tensors are views into the mapping, or are
//! converted into your buffers.
//!
//! ```
//! # let path = tenmap::doc::model("lib");
//! use tenmap::Model;
//!
//! let model = Model::open(&path)?;
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
//! }
//! let norm: &[f32] = model.tensor("norm.weight")?.view()?; // no copy
//! let head: Vec<f32> = model.tensor("head.weight")?.read()?; // converted from BF16
//! assert_eq!((norm, &head[..2]), (&[1.0, 2.0, 3.0][..], &[0.0, 0.5][..]));
//! # Ok::<(), tenmap::Error>(())
//! ```
//!
//! # Lifetimes and threads
//!
//! Tensors, names, shapes and slices borrow the model. A model cannot change once it is open, so it
//! is [`Send`] and [`Sync`], and so is everything that borrows it. Dropping the model closes it.
//!
//! # Files that change
//!
//! With [`Backend::Map`], the default, the slices that [`Tensor::bytes`] and [`Tensor::view`]
//! return are the file itself. **No process may overwrite or truncate the file while the model is
//! open.** If one truncates it, or its storage fails, touching a lost page raises SIGBUS, even
//! inside the library. If one overwrites it, the bytes of a `&[u8]` change, which Rust takes for
//! impossible: it is undefined behavior, as with every crate that maps files. No library can
//! prevent either. Replacing a file by rename is harmless.
//!
//! Where files may change (network folders, downloads in progress), open with [`Backend::Read`]:
//! there are no slices, and every access is a checked read, which returns [`Status::Io`] if the
//! file changed. [`Model::detach`] replaces the mapping by memory of this process.
//!
//! # What is not here
//!
//! Saving in shards, editing files in place, statistics, and models that are not files of this
//! system are in the C API, which the crate `tenmap_sys` declares. [`Model::as_ptr`] and
//! [`Tensor::as_ptr`] give its handles.

mod dtype;
mod element;
mod error;
mod finding;
mod load;
mod metadata;
mod model;
mod options;
mod take;
mod tensor;
mod writer;

pub use dtype::{Dtype, Kind};
pub use element::{Bf16, Element, F16};
pub use error::{Error, Remedy, Result, Status};
pub use finding::{Finding, Severity, check};
pub use load::{LoadOptions, Request, load};
pub use metadata::{Array, Metadata, Value};
pub use model::{Advice, BorrowedModel, Model, Shard, Shards, Tensors};
pub use options::{Backend, Options};
pub use take::{Taken, Want};
pub use tensor::{Scheme, Tensor};
pub use writer::{Writer, WriterOptions};

/// The version of the C library inside: major, minor, patch.
///
/// ```
/// let (major, minor, patch) = tenmap::version();
/// assert!(env!("CARGO_PKG_VERSION").starts_with(&format!("{major}.{minor}.{patch}")));
/// ```
pub fn version() -> (u32, u32, u32) {
    // SAFETY: the call has no conditions.
    let number = unsafe { tenmap_sys::tenmap_version() };
    (number / 1_000_000, number / 1_000 % 1_000, number % 1_000)
}

/// The instruction set that conversions use on this machine: "avx2", "neon" or "scalar".
///
/// ```
/// assert!(["avx2", "neon", "scalar"].contains(&tenmap::cpu_path()));
/// ```
pub fn cpu_path() -> &'static str {
    // SAFETY: the call has no conditions, and its result is a static string.
    unsafe { text::of_c(tenmap_sys::tenmap_cpu_path()) }
}

/// Text of the library as `&str`.
pub(crate) mod text {
    use std::ffi::{CStr, c_char};

    /// The text as far as it is UTF-8, which is all of it for names, keys and messages.
    pub(crate) fn checked(bytes: &[u8]) -> &str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// The text that begins at `text`.
    ///
    /// # Safety
    /// `text` is NULL or NUL-terminated, and lives for `'a`.
    pub(crate) unsafe fn of_c<'a>(text: *const c_char) -> &'a str {
        if text.is_null() {
            return "";
        }
        // SAFETY: the caller says so.
        checked(unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    /// The bytes `[at, at + len)`, and none for NULL.
    ///
    /// # Safety
    /// `at` is NULL, or these elements can be read for `'a`.
    pub(crate) unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
        if at.is_null() || len == 0 {
            return &[];
        }
        // SAFETY: the caller says so.
        unsafe { std::slice::from_raw_parts(at, len) }
    }
}

/// What the examples of this documentation share.
#[doc(hidden)]
pub mod doc {
    use crate::{Bf16, Dtype, Writer};

    /// The path of a file that is removed with this object.
    pub struct Sample(std::path::PathBuf);

    impl AsRef<std::path::Path> for Sample {
        fn as_ref(&self) -> &std::path::Path {
            &self.0
        }
    }

    impl Drop for Sample {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Writes a model of two tensors into the folder for temporary files.
    pub fn model(name: &str) -> Sample {
        let name = format!("tenmap-doc-{}-{name}.safetensors", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut writer = Writer::create(&path).expect("the folder can be written to");
        writer.metadata("format", "pt").expect("a new key");
        let norm = writer.add("norm.weight", Dtype::F32, &[3]).expect("a new name");
        let head = writer.add("head.weight", Dtype::Bf16, &[2, 3]).expect("a new name");
        writer.write(norm, &[1f32, 2.0, 3.0]).expect("all of it");
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5].map(|x: f32| Bf16((x.to_bits() >> 16) as u16));
        writer.write(head, &values).expect("all of it");
        writer.commit().expect("a complete file");
        Sample(path)
    }
}
