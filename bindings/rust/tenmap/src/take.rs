//! All weights that an engine wants, in one call.

use std::ffi::CString;
use std::ptr;

use tenmap_sys as sys;

use crate::{Dtype, Element, Error, LoadOptions, Model, Result, Status, Tensor, text};

/// One weight: [`Model::take`].
#[derive(Clone, Debug)]
pub struct Want<'a> {
    name: &'a str,
    dtype: Option<Dtype>,
    shape: Option<&'a [u64]>,
    flags: u32,
    alignment: u32,
}

impl<'a> Want<'a> {
    /// The weight of this name, as it is stored.
    pub fn new(name: &'a str) -> Want<'a> {
        Want { name, dtype: None, shape: None, flags: 0, alignment: 0 }
    }

    /// The dtype that it is converted to, unless it has that dtype.
    pub fn dtype(mut self, dtype: Dtype) -> Want<'a> {
        self.dtype = Some(dtype);
        self
    }

    /// The shape that it must have. [`Want::ANY_EXTENT`] allows any extent.
    pub fn shape(mut self, shape: &'a [u64]) -> Want<'a> {
        self.shape = Some(shape);
        self
    }

    /// In [`Want::shape`]: this dimension may have any extent.
    pub const ANY_EXTENT: u64 = sys::TENMAP_ANY_EXTENT;

    /// A weight that is missing is no error.
    pub fn optional(mut self) -> Want<'a> {
        self.flags |= sys::TENMAP_WANT_OPTIONAL;
        self
    }

    /// The alignment of the data, a power of two up to 2 MiB.
    pub fn alignment(mut self, bytes: u32) -> Want<'a> {
        self.alignment = bytes;
        self
    }
}

/// The weights that [`Model::take`] found, by their numbers in the list of wants.
#[derive(Debug)]
pub struct Taken<'m> {
    weights: Vec<Option<Weight<'m>>>,
    arena: *mut sys::tenmap_arena,
}

#[derive(Debug)]
struct Weight<'m> {
    tensor: Tensor<'m>,
    dtype: Dtype,
    data: *const u8,
    bytes: usize,
}

// SAFETY: nobody writes to the arena after the call that made it; any thread may free it.
unsafe impl Send for Taken<'_> {}
// SAFETY: as above.
unsafe impl Sync for Taken<'_> {}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // SAFETY: the arena is this object's own, or NULL, and nothing borrows it any more.
        unsafe { sys::tenmap_arena_free(self.arena) }
    }
}

impl<'m> Taken<'m> {
    pub(crate) fn take(
        model: &'m Model,
        wants: &[Want<'_>],
        options: LoadOptions<'_>,
    ) -> Result<Self> {
        let names = wants.iter().map(|want| c_name(want.name)).collect::<Result<Vec<CString>>>()?;
        let mut list: Vec<_> =
            wants.iter().zip(&names).map(|(want, name)| to_c(want, name)).collect();
        let (count, at) = (list.len(), list.as_mut_ptr());
        let mut arena = ptr::null_mut();
        // SAFETY: the model is open, and the list, its names and its shapes live during the call.
        options.call(|options, e| unsafe {
            sys::tenmap_take(model.as_ptr(), at, count, options, &mut arena, e)
        })?;
        let mut taken = Taken { weights: Vec::with_capacity(count), arena };
        for want in &list {
            // SAFETY: the tensor is NULL or one of the model's, which lives for 'm.
            let tensor = unsafe { Tensor::new(want.tensor) };
            taken.weights.push(tensor.map(|tensor| Weight::of(want, tensor)).transpose()?);
        }
        Ok(taken)
    }

    /// The `i`-th weight as elements of `T`, in the mapping or in the arena.
    ///
    /// # Errors
    ///
    /// [`Status::NotFound`] for an optional weight that is missing, [`Status::Dtype`] if it has
    /// another dtype.
    ///
    /// # Panics
    ///
    /// If there are not that many wants.
    pub fn get<T: Element>(&self, i: usize) -> Result<&[T]> {
        let missing = || Error::new(Status::NotFound, format!("weight {i} is missing"));
        let weight = self.weights[i].as_ref().ok_or_else(missing)?;
        let data = weight.data.cast::<T>();
        if weight.dtype != T::DTYPE || !data.is_aligned() {
            let message = format!("{:?} was taken as {}", weight.tensor.name(), weight.dtype);
            return Err(Error::new(Status::Dtype, message));
        }
        // SAFETY: the weight has these bytes of this dtype, aligned for it, in the mapping of a
        // model that outlives `self` or in the arena.
        Ok(unsafe { text::slice(data, weight.bytes / size_of::<T>()) })
    }

    /// The bytes of the `i`-th weight in the host's order; `None` if it is missing.
    ///
    /// # Panics
    ///
    /// If there are not that many wants.
    pub fn bytes(&self, i: usize) -> Option<&[u8]> {
        // SAFETY: as in `get`.
        self.weights[i].as_ref().map(|weight| unsafe { text::slice(weight.data, weight.bytes) })
    }

    /// The tensor that the `i`-th weight came from; `None` if it is missing.
    ///
    /// # Panics
    ///
    /// If there are not that many wants.
    pub fn tensor(&self, i: usize) -> Option<Tensor<'m>> {
        self.weights[i].as_ref().map(|weight| weight.tensor)
    }
}

impl<'m> Weight<'m> {
    fn of(want: &sys::tenmap_want, tensor: Tensor<'m>) -> Result<Weight<'m>> {
        let dtype = Dtype::from_raw(want.r#as).unwrap_or(tensor.dtype());
        let bytes =
            if dtype == tensor.dtype() { Some(tensor.nbytes()) } else { dtype.bytes(tensor.len()) };
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
            Error::new(Status::Memory, format!("{:?} does not fit into memory", tensor.name()))
        })?;
        Ok(Weight { tensor, dtype, data: want.data.cast(), bytes })
    }
}

fn c_name(name: &str) -> Result<CString> {
    let message = || format!("{name:?} holds NUL: a weight of this name cannot be taken");
    CString::new(name).map_err(|_| Error::new(Status::Argument, message()))
}

fn to_c(want: &Want<'_>, name: &CString) -> sys::tenmap_want {
    sys::tenmap_want {
        name: name.as_ptr(),
        r#as: want.dtype.map_or(sys::TENMAP_AS_STORED, Dtype::as_raw),
        rank: want.shape.map_or(0, |shape| shape.len() as u32),
        shape: want.shape.map_or(ptr::null(), <[u64]>::as_ptr),
        flags: want.flags,
        alignment: want.alignment,
        data: ptr::null(),
        tensor: ptr::null(),
        reserved: [0; 2],
        nbytes: 0,
        begin: ptr::null(),
        end: ptr::null(),
        numbers: 0,
        layer: 0,
        expert: 0,
        reserved2: 0,
        dst: ptr::null_mut(),
        dst_bytes: 0,
    }
}
