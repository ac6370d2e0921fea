//! Models and their files.

use std::ffi::CString;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::path::Path;
use std::ptr::{self, NonNull};

use tenmap_sys as sys;

use crate::error::from_c;
use crate::{
    Error, LoadOptions, Metadata, Options, Request, Result, Status, Taken, Tensor, Want, text,
};

/// An open model, which cannot change. Dropping it closes it.
///
/// ```
/// # let path = tenmap::doc::model("model");
/// let model = tenmap::Model::open(&path)?;
/// assert_eq!(model.len(), 2);
/// assert_eq!(model.metadata_text("format"), Some("pt"));
/// std::thread::scope(|scope| {
///     for tensor in model.tensors() {
///         scope.spawn(move || assert!(!tensor.name().is_empty()));
///     }
/// });
/// # Ok::<(), tenmap::Error>(())
/// ```
pub struct Model(NonNull<sys::tenmap_model>);

// SAFETY: tenmap.h: "A model is immutable once it is open. Any number of threads may use it at the
// same time." Any thread may close it; Drop has it alone.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing borrows the model any more.
        unsafe { sys::tenmap_close(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("path", &self.path()).field("tensors", &self.len()).finish()
    }
}

from_c! {
    /// What to do with the pages of a mapped model. On a model that is not mapped, every advice
    /// succeeds and does nothing.
    Advice: u32 {
        /// The pages are in memory when the call returns. If the file was truncated, this is
        /// [`Status::Io`], not a signal.
        Populate = TENMAP_ADVISE_POPULATE,
        /// The same in the background, in the order of the calls.
        Prefetch = TENMAP_ADVISE_PREFETCH,
        /// Unmaps the pages from this process. Slices stay valid and load again when touched.
        Release = TENMAP_ADVISE_RELEASE,
        /// Brings the pages in and keeps them in memory.
        Lock = TENMAP_ADVISE_LOCK,
        /// Ends that.
        Unlock = TENMAP_ADVISE_UNLOCK,
    }
}

impl Model {
    /// Opens a file, an index or a folder with the default [`Options`].
    ///
    /// # Errors
    ///
    /// The error names the file, the byte offset, what was found and what was expected.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Options::new().open(path)
    }

    pub(crate) fn opened(
        call: impl FnOnce(*mut *mut sys::tenmap_model, *mut sys::tenmap_error) -> i32,
    ) -> Result<Model> {
        let mut model = ptr::null_mut();
        Error::check(|e| call(&mut model, e))?;
        let nothing = || Error::new(Status::Argument, "the library returned no model");
        NonNull::new(model).map(Model).ok_or_else(nothing)
    }

    /// The handle for calls of the C API. It stays the model's: do not close it.
    pub fn as_ptr(&self) -> *const sys::tenmap_model {
        self.0.as_ptr()
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is open.
        unsafe { sys::tenmap_count(self.as_ptr()) }
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `i`-th tensor in file order.
    pub fn at(&self, i: usize) -> Option<Tensor<'_>> {
        // SAFETY: the handle is open, and the tensor lives as long as it is, which `self` bounds.
        unsafe { Tensor::new(sys::tenmap_at(self.as_ptr(), i)) }
    }

    /// The tensor of exactly this name, or `None`. O(1).
    pub fn get(&self, name: &str) -> Option<Tensor<'_>> {
        // SAFETY: the name has `len` bytes; as above.
        unsafe { Tensor::new(sys::tenmap_find_n(self.as_ptr(), name.as_ptr().cast(), name.len())) }
    }

    /// The tensor of exactly this name.
    ///
    /// # Errors
    ///
    /// [`Status::NotFound`], with a message that names the model and the tensor.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.get(name).ok_or_else(|| {
            Error::new(Status::NotFound, format!("{:?}: there is no tensor {name:?}", self.path()))
        })
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors { model: self, left: 0..self.len() }
    }

    /// The path as it was given; "" for a descriptor or memory.
    pub fn path(&self) -> &str {
        // SAFETY: the handle is open; the text lives as long as it is.
        unsafe { text::of_c(sys::tenmap_path(self.as_ptr())) }
    }

    /// The folder of the model's files, where config.json and the tokenizer would be.
    pub fn folder(&self) -> &str {
        // SAFETY: as above.
        unsafe { text::of_c(sys::tenmap_folder(self.as_ptr())) }
    }

    /// The bytes of all files together.
    pub fn file_size(&self) -> u64 {
        // SAFETY: the handle is open.
        unsafe { sys::tenmap_file_size(self.as_ptr()) }
    }

    /// The files of the model.
    pub fn shards(&self) -> Shards<'_> {
        // SAFETY: the handle is open.
        Shards { model: self, left: 0..unsafe { sys::tenmap_shard_count(self.as_ptr()) } }
    }

    /// The shards that [`Options::partial`] found missing, as the index names them.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        // SAFETY: the handle is open.
        let count = unsafe { sys::tenmap_missing_count(self.as_ptr()) };
        // SAFETY: as above; the text lives as long as the model.
        (0..count).map(|i| unsafe { text::of_c(sys::tenmap_missing_at(self.as_ptr(), i)) })
    }

    /// The metadata of all shards, in shard order, each in header order.
    ///
    /// ```
    /// # let path = tenmap::doc::model("metadata");
    /// # let model = tenmap::Model::open(&path)?;
    /// for pair in model.metadata() {
    ///     println!("{} = {:?}", pair.key(), pair.value());
    /// }
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    pub fn metadata(&self) -> impl Iterator<Item = Metadata<'_>> {
        // SAFETY: the handle is open.
        let count = unsafe { sys::tenmap_metadata_count(self.as_ptr()) };
        // SAFETY: as above; the pair lives as long as the model.
        (0..count)
            .filter_map(|i| unsafe { sys::tenmap_metadata_at(self.as_ptr(), i).as_ref() })
            .map(Metadata::new)
    }

    /// The value of the first pair that has the key, as text. A linear scan.
    pub fn metadata_text(&self, key: &str) -> Option<&str> {
        let key = CString::new(key).ok()?;
        // SAFETY: the handle is open and the key NUL-terminated; the text lives as long as the
        // model.
        let value = unsafe { sys::tenmap_metadata_get(self.as_ptr(), key.as_ptr()) };
        // SAFETY: as above.
        (!value.is_null()).then(|| unsafe { text::of_c(value) })
    }

    /// The text of the index, if the model has one.
    pub fn index_json(&self) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: the handle is open; the text lives as long as the model.
        let json = unsafe { sys::tenmap_index_json(self.as_ptr(), &mut len) };
        // SAFETY: as above.
        (!json.is_null()).then(|| unsafe { text::slice(json.cast(), len) })
    }

    /// Converts many tensors, or blocks of them, into your buffers, on several threads, in file
    /// order. [`load`](crate::load) is the same for tensors of several models.
    ///
    /// ```
    /// # let path = tenmap::doc::model("load");
    /// # let model = tenmap::Model::open(&path)?;
    /// use tenmap::{LoadOptions, Request};
    ///
    /// let (mut norm, mut head) = (vec![0f32; 3], vec![0f32; 6]);
    /// let mut requests = [
    ///     Request::new(model.tensor("norm.weight")?, &mut norm),
    ///     Request::new(model.tensor("head.weight")?, &mut head),
    /// ];
    /// model.load(&mut requests, LoadOptions::new().threads(2))?;
    /// drop(requests);
    /// assert_eq!((norm[2], head[5]), (3.0, 2.5));
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::index`] is the number of the request that failed, and the message names its tensor.
    /// The contents of all buffers are unspecified then.
    pub fn load(&self, requests: &mut [Request<'_, '_>], options: LoadOptions<'_>) -> Result<()> {
        crate::load::run(self.as_ptr(), requests, options)
    }

    /// All weights that an engine wants, in one call: as views where dtype, alignment and backend
    /// allow it, else converted on several threads into one allocation.
    ///
    /// ```
    /// # let path = tenmap::doc::model("take");
    /// # let model = tenmap::Model::open(&path)?;
    /// use tenmap::{Dtype, LoadOptions, Want};
    ///
    /// let wants = [Want::new("norm.weight"), Want::new("head.weight").dtype(Dtype::F32)];
    /// let taken = model.take(&wants, LoadOptions::new())?;
    /// let (norm, head): (&[f32], &[f32]) = (taken.get(0)?, taken.get(1)?);
    /// assert_eq!((norm[0], head[1]), (1.0, 0.5));
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// One error lists the weights that failed; [`Error::index`] is the number of the first.
    pub fn take(&self, wants: &[Want<'_>], options: LoadOptions<'_>) -> Result<Taken<'_>> {
        Taken::take(self, wants, options)
    }

    /// Advice about all pages of the model.
    ///
    /// # Errors
    ///
    /// [`Status::Limit`] beyond what this process may lock, [`Status::Io`] if the storage fails.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        // SAFETY: the handle is open; no tensor means all.
        Error::check(|e| unsafe {
            sys::tenmap_advise(self.as_ptr(), ptr::null(), advice.as_raw(), e)
        })
    }

    /// How many bytes of the model are mapped in this process, as its RSS counts them.
    ///
    /// # Errors
    ///
    /// [`Status::Unsupported`] on systems that do not tell.
    pub fn resident(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the handle is open; no tensor means all.
        Error::check(|e| unsafe {
            sys::tenmap_resident(self.as_ptr(), ptr::null(), &mut bytes, e)
        })?;
        Ok(bytes)
    }

    /// Reads a mapped model once into memory of this process and puts that memory in the mapping's
    /// place. Afterwards the file may be truncated, replaced or deleted. Linux only.
    ///
    /// # Errors
    ///
    /// [`Status::Unsupported`] for models that are not mapped, [`Status::Io`] if a file has changed
    /// since it was opened. All bytes can be read as before then.
    pub fn detach(&mut self, options: LoadOptions<'_>) -> Result<()> {
        let model = self.0.as_ptr();
        // SAFETY: the handle is open, and `&mut self` makes the caller its owner.
        options.call(|options, e| unsafe { sys::tenmap_detach(model, options, e) })
    }
}

/// A model whose bytes are borrowed, from [`Options::open_memory`].
#[derive(Debug)]
pub struct BorrowedModel<'a> {
    pub(crate) model: Model,
    pub(crate) bytes: PhantomData<&'a [u8]>,
}

impl Deref for BorrowedModel<'_> {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// The tensors of a model in file order: [`Model::tensors`].
#[derive(Clone, Debug)]
pub struct Tensors<'m> {
    model: &'m Model,
    left: Range<usize>,
}

impl<'m> Iterator for Tensors<'m> {
    type Item = Tensor<'m>;

    fn next(&mut self) -> Option<Tensor<'m>> {
        self.left.next().and_then(|i| self.model.at(i))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl DoubleEndedIterator for Tensors<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left.next_back().and_then(|i| self.model.at(i))
    }
}

impl ExactSizeIterator for Tensors<'_> {}
impl FusedIterator for Tensors<'_> {}

impl<'m> IntoIterator for &'m Model {
    type Item = Tensor<'m>;
    type IntoIter = Tensors<'m>;

    fn into_iter(self) -> Tensors<'m> {
        self.tensors()
    }
}

/// The files of a model: [`Model::shards`].
#[derive(Clone, Debug)]
pub struct Shards<'m> {
    model: &'m Model,
    left: Range<usize>,
}

impl<'m> Iterator for Shards<'m> {
    type Item = Shard<'m>;

    fn next(&mut self) -> Option<Shard<'m>> {
        let i = self.left.next()?;
        // SAFETY: the handle is open, and the shard lives as long as it is, which 'm bounds.
        unsafe { sys::tenmap_shard_at(self.model.as_ptr(), i).as_ref() }.map(Shard)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl ExactSizeIterator for Shards<'_> {}
impl FusedIterator for Shards<'_> {}

/// One file of a model.
#[derive(Clone, Copy)]
pub struct Shard<'m>(&'m sys::tenmap_shard);

// SAFETY: a view of an immutable model, which any number of threads may use.
unsafe impl Send for Shard<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shard<'_> {}

impl<'m> Shard<'m> {
    /// The path as opened; "" for a descriptor or memory.
    pub fn path(&self) -> &'m str {
        // SAFETY: the text lives as long as the model.
        unsafe { text::of_c(self.0.path) }
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// The bytes of the header: the JSON text, all of a GGUF header, or a pickle.
    pub fn header_bytes(&self) -> u64 {
        self.0.header_bytes
    }

    /// "safetensors", "gguf" or "pytorch".
    pub fn format(&self) -> &'m str {
        // SAFETY: the text lives as long as the model.
        unsafe { text::of_c(self.0.format) }
    }

    /// Which tensors of [`Model::at`] are in this file.
    pub fn tensors(&self) -> Range<usize> {
        self.0.first_tensor..self.0.first_tensor + self.0.tensor_count
    }
}

impl fmt::Debug for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("path", &self.path()).field("size", &self.size()).finish()
    }
}
