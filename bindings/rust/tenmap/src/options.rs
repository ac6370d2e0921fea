//! How a model is opened.

use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::path::Path;

use tenmap_sys as sys;

use crate::{BorrowedModel, Error, Model, Result, Status};

/// How the bytes of a file are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Tensors are slices of a read-only shared mapping. The file must not change while the model
    /// is open: see the documentation of the crate.
    #[default]
    Map,
    /// No mapping and no slices: every access is a checked read, which is [`Status::Io`] if the
    /// file's size or modification time has changed since it was opened.
    Read,
}

/// How a model is opened. The defaults are those of [`Model::open`].
///
/// ```
/// # let path = tenmap::doc::model("options");
/// use tenmap::{Backend, Options};
///
/// let model = Options::new().backend(Backend::Read).dequantize(true).open(&path)?;
/// let norm = model.tensor("norm.weight")?;
/// assert_eq!(norm.bytes(), None); // not mapped
/// assert_eq!(norm.read::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tenmap::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    backend: Backend,
    flags: u32,
    threads: u32,
    max_header_bytes: u64,
    offset: u64,
    length: u64,
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// How the bytes of a file are reached.
    pub fn backend(mut self, backend: Backend) -> Options {
        self.backend = backend;
        self
    }

    fn flag(mut self, flag: u32, set: bool) -> Options {
        self.flags = if set { self.flags | flag } else { self.flags & !flag };
        self
    }

    /// Also open files that a strict reader refuses: bytes after the last tensor, holes, unknown
    /// dtypes, an index that lists tensors where they are not. Tensors that overlap or lie out of
    /// bounds are never allowed.
    pub fn lenient(self, set: bool) -> Options {
        self.flag(sys::TENMAP_OPEN_LENIENT, set)
    }

    /// Some or all shards may be missing ([`Model::missing`]); their tensors are absent.
    pub fn partial(self, set: bool) -> Options {
        self.flag(sys::TENMAP_OPEN_PARTIAL, set)
    }

    /// Show each quantized weight (codes, scales, zero points) as one tensor, whose values are
    /// computed when it is read. [`Tensor::parts`](crate::Tensor::parts) gives what is stored.
    pub fn dequantize(self, set: bool) -> Options {
        self.flag(sys::TENMAP_OPEN_DEQUANTIZE, set)
    }

    /// With [`Options::open_list`]: of several tensors with the same name, use the last path's.
    pub fn later_wins(self, set: bool) -> Options {
        self.flag(sys::TENMAP_OPEN_LATER_WINS, set)
    }

    /// [`Model::get`] and [`Model::tensor`] also accept names that a writer left out because
    /// another tensor has their data.
    pub fn aliases(self, set: bool) -> Options {
        self.flag(sys::TENMAP_OPEN_ALIASES, set)
    }

    /// Threads for opening many shards, at most 64; 0: the library decides.
    pub fn threads(mut self, threads: u32) -> Options {
        self.threads = threads;
        self
    }

    /// The largest header in bytes; 0: 100,000,000.
    pub fn max_header_bytes(mut self, bytes: u64) -> Options {
        self.max_header_bytes = bytes;
        self
    }

    /// The model lies inside a larger file or buffer; `length` 0: to its end. For single files
    /// only.
    pub fn range(mut self, offset: u64, length: u64) -> Options {
        (self.offset, self.length) = (offset, length);
        self
    }

    /// Opens a file, an index or a folder.
    ///
    /// # Errors
    ///
    /// The error names the file, the byte offset, what was found and what was expected.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = c_path(path.as_ref())?;
        let options = self.to_c();
        // SAFETY: the path is NUL-terminated, and path and options live during the call.
        Model::opened(|out, e| unsafe { sys::tenmap_open(path.as_ptr(), &options, out, e) })
    }

    /// Opens several files as one model: pieces of it, components, or a base model and files that
    /// replace some of its tensors ([`Options::later_wins`]).
    ///
    /// # Errors
    ///
    /// [`Error::index`] is the number of the path that cannot be opened.
    pub fn open_list<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Model> {
        let paths: Vec<CString> =
            paths.iter().map(|path| c_path(path.as_ref())).collect::<Result<_>>()?;
        let list: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        let options = self.to_c();
        // SAFETY: the list has `len` NUL-terminated paths; all of it lives during the call.
        Model::opened(|out, e| unsafe {
            sys::tenmap_open_list(list.as_ptr(), list.len(), &options, out, e)
        })
    }

    /// Opens a single file behind a descriptor, which is duplicated.
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    #[cfg(unix)]
    pub fn open_file(&self, file: impl std::os::fd::AsFd) -> Result<Model> {
        use std::os::fd::AsRawFd;
        let (fd, options) = (file.as_fd().as_raw_fd(), self.to_c());
        // SAFETY: the descriptor is open during the call.
        Model::opened(|out, e| unsafe { sys::tenmap_open_fd(fd, &options, out, e) })
    }

    /// Opens a single file in memory, which the model borrows.
    ///
    /// ```
    /// # let path = tenmap::doc::model("memory");
    /// let bytes = std::fs::read(&path).unwrap();
    /// let model = tenmap::Options::new().open_memory(&bytes)?;
    /// assert_eq!(model.len(), 2);
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    pub fn open_memory<'a>(&self, bytes: &'a [u8]) -> Result<BorrowedModel<'a>> {
        let options = self.to_c();
        // SAFETY: the bytes can be read, and neither change nor go away before the model is closed,
        // because the result borrows them.
        let model = Model::opened(|out, e| unsafe {
            sys::tenmap_open_memory(bytes.as_ptr().cast(), bytes.len(), &options, out, e)
        })?;
        Ok(BorrowedModel { model, bytes: PhantomData })
    }

    pub(crate) fn to_c(&self) -> sys::tenmap_options {
        sys::tenmap_options {
            backend: match self.backend {
                Backend::Map => sys::TENMAP_BACKEND_MAP,
                Backend::Read => sys::TENMAP_BACKEND_READ,
            },
            flags: self.flags,
            threads: self.threads,
            max_header_bytes: self.max_header_bytes,
            offset: self.offset,
            length: self.length,
            ..sys::TENMAP_OPTIONS_INIT
        }
    }
}

/// A path as the library takes it: UTF-8, or on Unix the system's bytes.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    #[cfg(unix)]
    let bytes = Some(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()));
    #[cfg(not(unix))]
    let bytes = path.to_str().map(str::as_bytes);
    bytes.and_then(|bytes| CString::new(bytes).ok()).ok_or_else(|| {
        Error::new(
            Status::Argument,
            format!("{path:?} cannot be a path: it holds NUL or is not UTF-8"),
        )
    })
}
