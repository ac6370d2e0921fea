//! Loads: many tensors, converted on several threads.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use tenmap_sys as sys;

use crate::{Dtype, Element, Error, Result, Status, Tensor};

/// One tensor, or a block of it, and where its elements go.
pub struct Request<'m, 'd> {
    tensor: Tensor<'m>,
    begin: Vec<u64>,
    end: Vec<u64>,
    is_block: bool,
    dtype: Dtype,
    flags: u32,
    dst: *mut c_void,
    dst_bytes: usize,
    buffer: PhantomData<&'d mut [u8]>,
}

// SAFETY: a reference to an immutable model, and a mutable one to numbers.
unsafe impl Send for Request<'_, '_> {}

impl<'m, 'd> Request<'m, 'd> {
    /// All elements of the tensor, or with [`Request::block`] some, converted to `T`. The buffer
    /// must have room for them.
    pub fn new<T: Element>(tensor: Tensor<'m>, dst: &'d mut [T]) -> Request<'m, 'd> {
        let bytes = size_of_val(dst);
        Request::to(tensor, T::DTYPE, dst.as_mut_ptr().cast(), bytes)
    }

    /// The same as any dtype, into bytes in the host's order.
    pub fn raw(tensor: Tensor<'m>, dtype: Dtype, dst: &'d mut [u8]) -> Request<'m, 'd> {
        let bytes = dst.len();
        Request::to(tensor, dtype, dst.as_mut_ptr().cast(), bytes)
    }

    fn to(tensor: Tensor<'m>, dtype: Dtype, dst: *mut c_void, dst_bytes: usize) -> Request<'m, 'd> {
        Request {
            tensor,
            begin: Vec::new(),
            end: Vec::new(),
            is_block: false,
            dtype,
            flags: 0,
            dst,
            dst_bytes,
            buffer: PhantomData,
        }
    }

    /// Only the block of these ranges, one for each dimension.
    pub fn block(mut self, ranges: &[Range<u64>]) -> Request<'m, 'd> {
        (self.begin, self.end) = ranges.iter().map(|range| (range.start, range.end)).unzip();
        self.is_block = true;
        self
    }

    /// Overflow becomes the largest finite value, and an integer that does not fit the nearest one.
    pub fn saturate(mut self) -> Request<'m, 'd> {
        self.flags |= sys::TENMAP_CONVERT_SATURATE;
        self
    }

    fn to_c(&self) -> Result<sys::tenmap_request> {
        if self.is_block && self.begin.len() != self.tensor.shape().len() {
            let (name, rank) = (self.tensor.name(), self.tensor.shape().len());
            let message = format!("{name:?} has {rank} dimensions, not {}", self.begin.len());
            return Err(Error::new(Status::Argument, message));
        }
        let place = |list: &Vec<u64>| if self.is_block { list.as_ptr() } else { ptr::null() };
        Ok(sys::tenmap_request {
            tensor: self.tensor.as_ptr(),
            begin: place(&self.begin),
            end: place(&self.end),
            r#as: self.dtype.as_raw(),
            flags: self.flags,
            dst: self.dst,
            dst_bytes: self.dst_bytes,
            stored_as: sys::TENMAP_AS_STORED,
            reserved: 0,
            dst_stride: 0,
        })
    }
}

impl fmt::Debug for Request<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("tensor", &self.tensor).field("dtype", &self.dtype).finish()
    }
}

type Progress<'p> = Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'p>;

/// How a load runs.
#[derive(Default)]
pub struct LoadOptions<'p> {
    threads: u32,
    flags: u32,
    progress: Option<Progress<'p>>,
}

impl<'p> LoadOptions<'p> {
    /// The defaults.
    pub fn new() -> LoadOptions<'p> {
        LoadOptions::default()
    }

    /// How many threads, at most 64, the caller's included; 0: the library decides.
    pub fn threads(mut self, threads: u32) -> LoadOptions<'p> {
        self.threads = threads;
        self
    }

    /// Checked reads even on a mapped model: a file that shrinks is [`Status::Io`], not SIGBUS.
    pub fn checked_reads(mut self) -> LoadOptions<'p> {
        self.flags |= sys::TENMAP_LOAD_READ;
        self
    }

    /// Checked reads that bypass the page cache: for models that are read once.
    pub fn direct(mut self) -> LoadOptions<'p> {
        self.flags |= sys::TENMAP_LOAD_DIRECT;
        self
    }

    /// Calls `progress` on this thread every few MiB with the bytes done and their total.
    /// [`ControlFlow::Break`] cancels the load, which then returns [`Status::Cancelled`].
    ///
    /// ```
    /// # let path = tenmap::doc::model("progress");
    /// # let model = tenmap::Model::open(&path)?;
    /// use std::ops::ControlFlow;
    /// use tenmap::{LoadOptions, Request, Status};
    ///
    /// let mut norm = [0f32; 3];
    /// let mut requests = [Request::new(model.tensor("norm.weight")?, &mut norm)];
    /// let options = LoadOptions::new().progress(|_done, _total| ControlFlow::Break(()));
    /// assert_eq!(model.load(&mut requests, options).unwrap_err().status(), Status::Cancelled);
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    pub fn progress(
        mut self,
        progress: impl FnMut(u64, u64) -> ControlFlow<()> + 'p,
    ) -> LoadOptions<'p> {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Makes a call with these options. A panic of `progress` cancels the call and goes on after
    /// it.
    pub(crate) fn call(
        self,
        call: impl FnOnce(*const sys::tenmap_load_options, *mut sys::tenmap_error) -> i32,
    ) -> Result<()> {
        let has_progress = self.progress.is_some();
        let mut state = State { progress: self.progress, panic: None };
        let options = sys::tenmap_load_options {
            threads: self.threads,
            flags: self.flags,
            progress: has_progress.then_some(on_progress as _),
            ctx: ptr::from_mut(&mut state).cast(),
            ..sys::TENMAP_LOAD_OPTIONS_INIT
        };
        let result = Error::check(|e| call(&options, e));
        match state.panic {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}

struct State<'p> {
    progress: Option<Progress<'p>>,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn on_progress(ctx: *mut c_void, done: u64, total: u64) -> c_int {
    // SAFETY: `ctx` is the state of the call that is running, and the library calls this on the
    // caller's thread only, so nothing else uses it.
    let state = unsafe { &mut *ctx.cast::<State<'_>>() };
    let Some(progress) = &mut state.progress else { return 0 };
    if state.panic.is_some() {
        return 1;
    }
    match catch_unwind(AssertUnwindSafe(|| progress(done, total))) {
        Ok(ControlFlow::Continue(())) => 0,
        Ok(ControlFlow::Break(())) => 1,
        Err(panic) => {
            state.panic = Some(panic);
            1
        }
    }
}

/// [`Model::load`](crate::Model::load) for tensors of any models.
///
/// # Errors
///
/// As there.
pub fn load(requests: &mut [Request<'_, '_>], options: LoadOptions<'_>) -> Result<()> {
    run(ptr::null(), requests, options)
}

pub(crate) fn run(
    model: *const sys::tenmap_model,
    requests: &mut [Request<'_, '_>],
    options: LoadOptions<'_>,
) -> Result<()> {
    let list = requests.iter().map(Request::to_c).collect::<Result<Vec<_>>>()?;
    // SAFETY: the requests borrow their models and their buffers. Buffers are borrowed mutably, so
    // they overlap neither each other nor a model's data. Everything lives during the call, and
    // nothing else can use the requests meanwhile.
    options.call(|options, e| unsafe {
        sys::tenmap_load(model, list.as_ptr(), list.len(), options, e)
    })
}
