//! Writing files.

use std::fmt;
use std::path::Path;
use std::ptr::{self, NonNull};

use tenmap_sys as sys;

use crate::options::c_path;
use crate::{Dtype, Element, Error, Result, Status, Tensor};

/// Writes one SafeTensors file, which appears whole or not at all. A writer that is dropped without
/// [`Writer::commit`] leaves no file.
///
/// ```
/// # let name = format!("tenmap-doc-{}-w.safetensors", std::process::id());
/// # let path = std::env::temp_dir().join(name);
/// use tenmap::{Dtype, Model, Writer};
///
/// let mut writer = Writer::create(&path)?;
/// writer.metadata("format", "pt")?;
/// let weight = writer.add("weight", Dtype::F32, &[2, 2])?;
/// writer.write(weight, &[1f32, 2.0, 3.0, 4.0])?;
/// writer.commit()?;
/// assert_eq!(Model::open(&path)?.tensor("weight")?.read::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), tenmap::Error>(())
/// ```
pub struct Writer(NonNull<sys::tenmap_writer>);

// SAFETY: any thread may use a writer; `&mut self` makes the calls one at a time.
unsafe impl Send for Writer {}

/// How a file is written: [`WriterOptions::create`].
#[derive(Clone, Debug, Default)]
pub struct WriterOptions {
    alignment: u32,
    slack: u32,
    flags: u32,
}

impl WriterOptions {
    /// The defaults.
    pub fn new() -> WriterOptions {
        WriterOptions::default()
    }

    /// Where the data starts: a multiple of this power of two, up to 2 MiB.
    pub fn data_alignment(mut self, bytes: u32) -> WriterOptions {
        self.alignment = bytes;
        self
    }

    /// Spare bytes of the header, for later edits of metadata.
    pub fn header_slack(mut self, bytes: u32) -> WriterOptions {
        self.slack = bytes;
        self
    }

    /// Tensors in the order added; some may then be misaligned.
    pub fn keep_order(mut self) -> WriterOptions {
        self.flags |= sys::TENMAP_WRITER_KEEP_ORDER;
        self
    }

    /// Begins to write a file, which replaces one of the same path when it is committed.
    ///
    /// # Errors
    ///
    /// [`Status::Io`] or [`Status::NoSpace`] if the system refuses.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Writer> {
        let path = c_path(path.as_ref())?;
        let options = sys::tenmap_writer_options {
            data_alignment: self.alignment,
            header_slack: self.slack,
            flags: self.flags,
            ..sys::TENMAP_WRITER_OPTIONS_INIT
        };
        let mut writer = ptr::null_mut();
        // SAFETY: the path is NUL-terminated; path and options live during the call.
        Error::check(|e| unsafe {
            sys::tenmap_writer_create(path.as_ptr(), &options, &mut writer, e)
        })?;
        let nothing = || Error::new(Status::Argument, "the library returned no writer");
        NonNull::new(writer).map(Writer).ok_or_else(nothing)
    }
}

impl Writer {
    /// Begins to write a file with the default [`WriterOptions`].
    ///
    /// # Errors
    ///
    /// As [`WriterOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Writer> {
        WriterOptions::new().create(path)
    }

    /// Adds a pair of metadata, before the first bytes are written.
    ///
    /// # Errors
    ///
    /// [`Status::Argument`] for a key that is there already.
    pub fn metadata(&mut self, key: &str, value: &str) -> Result<()> {
        let writer = self.0.as_ptr();
        // SAFETY: the writer is open; the texts have these lengths and are copied.
        Error::check(|e| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            sys::tenmap_writer_metadata(writer, key_at, key.len(), value_at, value.len(), e)
        })
    }

    /// Declares a tensor, before the first bytes are written, and returns its number.
    ///
    /// # Errors
    ///
    /// [`Status::Argument`] for a name that is there already.
    pub fn add(&mut self, name: &str, dtype: Dtype, shape: &[u64]) -> Result<usize> {
        let (writer, mut id) = (self.0.as_ptr(), 0);
        let rank = u32::try_from(shape.len())
            .map_err(|_| Error::new(Status::Limit, "a shape has too many dimensions"))?;
        // SAFETY: the writer is open; name and shape have these lengths and are copied.
        Error::check(|e| unsafe {
            let (at, len) = (name.as_ptr().cast(), name.len());
            sys::tenmap_writer_add(
                writer,
                at,
                len,
                dtype.as_raw(),
                shape.as_ptr(),
                rank,
                &mut id,
                e,
            )
        })?;
        Ok(id)
    }

    /// Writes all elements of the tensor `id`.
    ///
    /// # Errors
    ///
    /// [`Status::Range`] if these are more than the tensor has, [`Status::NoSpace`] if the disk is
    /// full. If they are fewer, [`Writer::commit`] fails.
    pub fn write<T: Element>(&mut self, id: usize, elements: &[T]) -> Result<()> {
        // SAFETY: elements have no padding, so all of their bytes can be read.
        let bytes =
            unsafe { crate::text::slice(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
        if cfg!(target_endian = "little") || size_of::<T>() == 1 {
            return self.write_bytes(id, 0, bytes);
        }
        let mut swapped = bytes.to_vec();
        swapped.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        self.write_bytes(id, 0, &swapped)
    }

    /// Writes bytes of the tensor `id` from `offset` on, as the file will have them: little-endian.
    /// Every byte is written once, in any order.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn write_bytes(&mut self, id: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let (writer, at) = (self.0.as_ptr(), bytes.as_ptr().cast());
        // SAFETY: the writer is open, and the bytes can be read.
        Error::check(|e| unsafe {
            sys::tenmap_writer_write(writer, id, offset, at, bytes.len(), e)
        })
    }

    /// Copies a whole tensor of an open model into the tensor `id`, converted if the dtypes differ.
    ///
    /// # Errors
    ///
    /// [`Status::Io`] if the source changed since it was opened.
    pub fn copy(&mut self, id: usize, tensor: Tensor<'_>) -> Result<()> {
        let writer = self.0.as_ptr();
        // SAFETY: the writer is open, and the tensor is valid.
        Error::check(|e| unsafe { sys::tenmap_writer_copy(writer, id, tensor.as_ptr(), 0, e) })
    }

    /// Puts the file in its place. All bytes of all tensors must be written.
    ///
    /// # Errors
    ///
    /// The old file, if there was one, stays then.
    pub fn commit(self) -> Result<()> {
        let writer = self.0.as_ptr();
        std::mem::forget(self);
        // SAFETY: the writer is open; the call frees it, and nothing uses it afterwards.
        Error::check(|e| unsafe { sys::tenmap_writer_commit(writer, e) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: the writer is open, and nothing uses it afterwards.
        unsafe { sys::tenmap_writer_abort(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}
