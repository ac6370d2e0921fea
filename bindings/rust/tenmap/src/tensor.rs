//! Tensors: views with the lifetime of their model, and reads.

use std::fmt;
use std::ops::Range;

use tenmap_sys as sys;

use crate::{Advice, Dtype, Element, Error, Result, Status, text};

/// One tensor of a model. Copying it copies a reference.
///
/// ```
/// # let path = tenmap::doc::model("tensor");
/// # let model = tenmap::Model::open(&path)?;
/// use tenmap::{Bf16, Dtype};
///
/// let head = model.tensor("head.weight")?;
/// assert_eq!((head.dtype(), head.shape()), (Dtype::Bf16, &[2, 3][..]));
/// assert_eq!(head.view::<Bf16>()?[1].to_f32(), 0.5);
/// assert_eq!(head.read_slice::<f32>(&[1..2, 0..2])?, [1.5, 2.0]);
/// assert_eq!(head.bytes().map(<[u8]>::len), Some(12));
/// # Ok::<(), tenmap::Error>(())
/// ```
///
/// Slices have the lifetime of the model, and cannot outlive it:
///
/// ```compile_fail
/// # let path = tenmap::doc::model("outlive");
/// let model = tenmap::Model::open(&path).unwrap();
/// let norm: &[f32] = model.tensor("norm.weight").unwrap().view().unwrap();
/// drop(model);
/// println!("{}", norm[0]);
/// ```
#[derive(Clone, Copy)]
pub struct Tensor<'m>(&'m sys::tenmap_tensor);

// SAFETY: a view of an immutable model, which any number of threads may use.
unsafe impl Send for Tensor<'_> {}
// SAFETY: as above.
unsafe impl Sync for Tensor<'_> {}

/// How a tensor is stored: [`Tensor::scheme`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme<'m> {
    /// "none", "fp8-block", "mxfp4", "q4_k" and so on.
    pub name: &'m str,
    /// Bits of a stored value; 0 for "none".
    pub bits: u32,
    /// A scale is shared by this many rows; 0: by all.
    pub group_rows: u32,
    /// A scale is shared by this many columns; 0: by all.
    pub group_columns: u32,
}

impl<'m> Tensor<'m> {
    /// # Safety
    /// `tensor` is NULL, or a tensor of a model that is open during all of `'m`.
    pub(crate) unsafe fn new(tensor: *const sys::tenmap_tensor) -> Option<Tensor<'m>> {
        // SAFETY: the caller says so.
        unsafe { tensor.as_ref() }.map(Tensor)
    }

    /// The pointer for calls of the C API.
    pub fn as_ptr(self) -> *const sys::tenmap_tensor {
        self.0
    }

    /// The name.
    pub fn name(self) -> &'m str {
        // SAFETY: the name has `name_len` bytes and lives as long as the model.
        text::checked(unsafe { text::slice(self.0.name.cast(), self.0.name_len) })
    }

    /// The type of the elements. Of a quantized weight, the one that the model computes in.
    pub fn dtype(self) -> Dtype {
        Dtype::from_raw(self.0.dtype).unwrap_or(Dtype::Opaque)
    }

    /// The dtype as the header writes it, also for [`Dtype::Opaque`].
    pub fn dtype_text(self) -> &'m str {
        // SAFETY: the tensor is valid; the text lives as long as the model.
        unsafe { text::of_c(sys::tenmap_dtype_text(self.0)) }
    }

    /// The extent of each dimension; empty for a scalar.
    pub fn shape(self) -> &'m [u64] {
        // SAFETY: the shape has `rank` numbers and lives as long as the model.
        unsafe { text::slice(self.0.shape, self.0.rank as usize) }
    }

    /// The number of elements.
    pub fn len(self) -> u64 {
        self.0.nelems
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.0.nelems == 0
    }

    /// The bytes that the elements take in the tensor's own dtype.
    pub fn nbytes(self) -> u64 {
        self.0.nbytes
    }

    /// Where the bytes begin in the file of the shard.
    pub fn file_offset(self) -> u64 {
        self.0.file_offset
    }

    /// Which of [`Model::shards`](crate::Model::shards) the tensor is in.
    pub fn shard(self) -> usize {
        self.0.shard as usize
    }

    /// Whether the values are computed when they are read: a quantized weight of a model that was
    /// opened with [`Options::dequantize`](crate::Options::dequantize). There is no view then.
    pub fn is_computed(self) -> bool {
        self.0.flags & sys::TENMAP_TENSOR_COMPUTED != 0
    }

    /// How the tensor is stored.
    pub fn scheme(self) -> Scheme<'m> {
        // SAFETY: the tensor is valid, and the result is never NULL and lives as long as the model.
        let scheme = unsafe { &*sys::tenmap_scheme_of(self.0) };
        Scheme {
            // SAFETY: as above.
            name: unsafe { text::of_c(scheme.name) },
            bits: scheme.bits,
            group_rows: scheme.group_rows,
            group_columns: scheme.group_columns,
        }
    }

    /// The stored tensors of a computed one, the codes first.
    pub fn parts(self) -> impl Iterator<Item = Tensor<'m>> {
        // SAFETY: the tensor is valid; parts live as long as the model.
        (0..).map_while(move |i| unsafe { Tensor::new(sys::tenmap_part_at(self.0, i)) })
    }

    /// The bytes in the mapping, little-endian, as the file has them. `None` if they are not mapped
    /// ([`Backend::Read`](crate::Backend::Read)) or computed. The documentation of the crate says
    /// what happens if the file changes.
    pub fn bytes(self) -> Option<&'m [u8]> {
        if self.0.data.is_null() {
            return None;
        }
        let len = usize::try_from(self.0.nbytes).ok()?;
        // SAFETY: the data has `nbytes` bytes in the mapping and lives as long as the model.
        Some(unsafe { text::slice(self.0.data.cast(), len) })
    }

    /// The elements in the mapping, without a copy. The documentation of the crate says what
    /// happens if the file changes.
    ///
    /// ```
    /// # let path = tenmap::doc::model("view");
    /// # let model = tenmap::Model::open(&path)?;
    /// use tenmap::Status;
    ///
    /// let norm = model.tensor("norm.weight")?;
    /// assert_eq!(norm.view::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(norm.view::<f64>().unwrap_err().status(), Status::Dtype);
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Status::Dtype`] if the tensor has another dtype, [`Status::Alignment`] if the bytes are
    /// not aligned for `T`, [`Status::Unsupported`] if they are not mapped, or on a big-endian
    /// host. [`Tensor::read`] works in all of these cases.
    pub fn view<T: Element>(self) -> Result<&'m [T]> {
        // SAFETY: the tensor is valid.
        let data =
            Error::check_pointer(|e| unsafe { sys::tenmap_view(self.0, T::DTYPE.as_raw(), e) })?
                .cast::<T>();
        if !data.is_aligned() {
            return Err(Error::new(Status::Alignment, format!("{:?} is not aligned", self.name())));
        }
        let len = self.count()?;
        // SAFETY: tenmap_view checked that the tensor has this dtype, so that there are `nelems`
        // elements; the address is aligned, every pattern of bits is a T, and the data lives as
        // long as the model.
        Ok(unsafe { text::slice(data, len) })
    }

    /// All elements, converted to `T`.
    ///
    /// # Errors
    ///
    /// [`Status::Unsupported`] if the dtypes do not convert (floating point to integer),
    /// [`Status::Range`] if an integer does not fit, [`Status::Io`] if the file changed.
    pub fn read<T: Element>(self) -> Result<Vec<T>> {
        self.read_range(0..self.0.nelems)
    }

    /// The elements of a range in row-major order, converted to `T`.
    ///
    /// # Errors
    ///
    /// As [`Tensor::read`]; [`Status::Range`] outside the tensor.
    pub fn read_range<T: Element>(self, range: Range<u64>) -> Result<Vec<T>> {
        let count = range.end.saturating_sub(range.start);
        if count > self.0.nelems {
            return Err(outside(self, format_args!("elements {range:?}")));
        }
        // SAFETY: `fill` writes all of the destination, or fails.
        unsafe {
            read_vec(count, |dst, bytes, e| self.fill::<T>(range.start, count, dst, bytes, e))
        }
    }

    /// All elements, converted to `T`, into `dst`, which must have exactly as many.
    ///
    /// # Errors
    ///
    /// As [`Tensor::read`]; [`Status::Buffer`] if `dst` has another length.
    pub fn read_into<T: Element>(self, dst: &mut [T]) -> Result<()> {
        if dst.len() as u64 != self.0.nelems {
            let message =
                format!("{:?} has {} elements, the buffer {}", self.name(), self.len(), dst.len());
            return Err(Error::new(Status::Buffer, message));
        }
        let bytes = size_of_val(dst);
        Error::check(|e| self.fill::<T>(0, self.0.nelems, dst.as_mut_ptr(), bytes, e))
    }

    fn fill<T: Element>(
        self,
        first: u64,
        count: u64,
        dst: *mut T,
        bytes: usize,
        e: *mut sys::tenmap_error,
    ) -> i32 {
        // SAFETY: the tensor is valid. `dst` has `bytes` bytes; the library checks that they are
        // enough, and any bytes that it writes are elements of T.
        unsafe {
            sys::tenmap_read(self.0, first, count, T::DTYPE.as_raw(), dst.cast(), bytes, 0, e)
        }
    }

    /// The block of these ranges, one for each dimension, in row-major order, converted to `T`.
    ///
    /// # Errors
    ///
    /// As [`Tensor::read`]; [`Status::Range`] outside the tensor; [`Status::Argument`] if there are
    /// not as many ranges as dimensions.
    pub fn read_slice<T: Element>(self, ranges: &[Range<u64>]) -> Result<Vec<T>> {
        if ranges.len() != self.shape().len() {
            let message = format!(
                "{:?} has {} dimensions, not {}",
                self.name(),
                self.shape().len(),
                ranges.len()
            );
            return Err(Error::new(Status::Argument, message));
        }
        let (begin, end): (Vec<u64>, Vec<u64>) = ranges.iter().map(|r| (r.start, r.end)).unzip();
        let mut count = 1u64;
        for (range, &extent) in ranges.iter().zip(self.shape()) {
            if range.start > range.end || range.end > extent {
                return Err(outside(self, format_args!("{ranges:?}")));
            }
            count = count.saturating_mul(range.end - range.start);
        }
        let read = |dst: *mut T, bytes, e| {
            // SAFETY: the tensor is valid, begin and end have one number for each dimension, and
            // `dst` has `bytes` bytes.
            unsafe {
                sys::tenmap_read_slice(
                    self.0,
                    begin.as_ptr(),
                    end.as_ptr(),
                    T::DTYPE.as_raw(),
                    dst.cast(),
                    bytes,
                    0,
                    e,
                )
            }
        };
        // SAFETY: the call writes the `count` elements of the block, or fails.
        unsafe { read_vec(count, read) }
    }

    /// Elements `[first, first + count)` as any dtype, into bytes in the host's order. With
    /// `saturate`, overflow becomes the largest finite value, and an integer that does not fit the
    /// nearest one.
    ///
    /// ```
    /// # let path = tenmap::doc::model("raw");
    /// # let model = tenmap::Model::open(&path)?;
    /// let mut codes = [0; 3];
    /// model.tensor("norm.weight")?.read_raw(0, 3, tenmap::Dtype::F8E4m3, &mut codes, true)?;
    /// assert_eq!(codes, [0x38, 0x40, 0x44]);
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tensor::read`]; [`Status::Buffer`] if `dst` is too small ([`Dtype::bytes`]).
    pub fn read_raw(
        self,
        first: u64,
        count: u64,
        dtype: Dtype,
        dst: &mut [u8],
        saturate: bool,
    ) -> Result<()> {
        let flags = if saturate { sys::TENMAP_CONVERT_SATURATE } else { 0 };
        let (at, bytes) = (dst.as_mut_ptr().cast(), dst.len());
        // SAFETY: the tensor is valid, and the destination has these bytes.
        Error::check(|e| unsafe {
            sys::tenmap_read(self.0, first, count, dtype.as_raw(), at, bytes, flags, e)
        })
    }

    /// The bytes of the file, as they are, on any backend.
    ///
    /// # Errors
    ///
    /// [`Status::Unsupported`] for a computed tensor, [`Status::Io`] if the file changed.
    pub fn read_bytes(self) -> Result<Vec<u8>> {
        let read = |dst: *mut u8, bytes, e| {
            // SAFETY: the tensor is valid, and the destination has these bytes.
            unsafe { sys::tenmap_read_bytes(self.0, 0, bytes, dst.cast(), e) }
        };
        // SAFETY: the call writes all of the bytes, or fails.
        unsafe { read_vec(self.0.nbytes, read) }
    }

    /// Advice about the pages of this tensor.
    ///
    /// # Errors
    ///
    /// As [`Model::advise`](crate::Model::advise).
    pub fn advise(self, advice: Advice) -> Result<()> {
        // SAFETY: the tensor is valid, and so is its model.
        Error::check(|e| unsafe { sys::tenmap_advise(self.0.model, self.0, advice.as_raw(), e) })
    }

    fn count(self) -> Result<usize> {
        usize::try_from(self.0.nelems).map_err(|_| too_large(self.0.nelems))
    }
}

fn outside(tensor: Tensor<'_>, what: fmt::Arguments<'_>) -> Error {
    let message =
        format!("{what} of {:?}, which has the shape {:?}", tensor.name(), tensor.shape());
    Error::new(Status::Range, message)
}

fn too_large(count: u64) -> Error {
    Error::new(Status::Memory, format!("there is no memory for {count} elements"))
}

/// Allocates `count` elements and lets `fill` write them.
///
/// # Safety
/// `fill` returns TENMAP_OK only if it wrote all of them.
unsafe fn read_vec<T: Element>(
    count: u64,
    fill: impl FnOnce(*mut T, usize, *mut sys::tenmap_error) -> i32,
) -> Result<Vec<T>> {
    let len = usize::try_from(count).map_err(|_| too_large(count))?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| too_large(count))?;
    Error::check(|e| fill(values.as_mut_ptr(), len * size_of::<T>(), e))?;
    // SAFETY: there is room for `len` elements, and all of them were written.
    unsafe { values.set_len(len) };
    Ok(values)
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("name", &self.name())
            .field("dtype", &self.dtype())
            .field("shape", &self.shape())
            .finish()
    }
}
