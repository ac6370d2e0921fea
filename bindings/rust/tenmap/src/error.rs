//! Errors: a status for programs, a message for people, what would help.

use std::fmt;

use tenmap_sys as sys;

use crate::text;

/// The result of every call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Declares an enumeration whose numbers are constants of the C API.
macro_rules! from_c {
    ($(#[$about:meta])* $name:ident: $number:ty {
        $($(#[$doc:meta])* $variant:ident = $constant:ident,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// The value whose number in the C API is `number`, if there is one.
            pub const fn from_raw(number: $number) -> Option<$name> {
                match number {
                    $(tenmap_sys::$constant => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The number in the C API.
            pub const fn as_raw(self) -> $number {
                match self {
                    $($name::$variant => tenmap_sys::$constant,)*
                }
            }
        }
    };
}
pub(crate) use from_c;

from_c! {
    /// What went wrong, for programs.
    Status: i32 {
        /// An argument is wrong: a mistake in the calling program.
        Argument = TENMAP_ERR_ARGUMENT,
        /// An allocation failed.
        Memory = TENMAP_ERR_MEMORY,
        /// The system refused ([`Error::os_error`]), or the file changed.
        Io = TENMAP_ERR_IO,
        /// The bytes break a rule of the format.
        Format = TENMAP_ERR_FORMAT,
        /// A limit of the library or the process.
        Limit = TENMAP_ERR_LIMIT,
        /// This pair of dtypes, this host or this backend cannot do it.
        Unsupported = TENMAP_ERR_UNSUPPORTED,
        /// There is no such file, shard or tensor.
        NotFound = TENMAP_ERR_NOT_FOUND,
        /// A view: the tensor has another dtype.
        Dtype = TENMAP_ERR_DTYPE,
        /// A view: the data is not aligned for its element.
        Alignment = TENMAP_ERR_ALIGNMENT,
        /// Outside the tensor or the file, or an integer that does not fit.
        Range = TENMAP_ERR_RANGE,
        /// The destination is too small.
        Buffer = TENMAP_ERR_BUFFER,
        /// The disk is full, or the quota used up.
        NoSpace = TENMAP_ERR_NO_SPACE,
        /// A callback asked to stop.
        Cancelled = TENMAP_ERR_CANCELLED,
    }
}

from_c! {
    /// What would help, for programs. The message says the same in words.
    Remedy: u32 {
        /// Nothing that the library knows of.
        None = TENMAP_REMEDY_NONE,
        /// [`Options::partial`](crate::Options::partial): go without the missing files.
        AllowPartial = TENMAP_REMEDY_ALLOW_PARTIAL,
        /// [`Options::lenient`](crate::Options::lenient): take the file as it is.
        AllowLenient = TENMAP_REMEDY_ALLOW_LENIENT,
        /// [`Options::dequantize`](crate::Options::dequantize): the weight is quantized.
        Dequantize = TENMAP_REMEDY_DEQUANTIZE,
        /// [`Backend::Read`](crate::Backend::Read).
        BackendRead = TENMAP_REMEDY_BACKEND_READ,
        /// A higher [`Options::max_header_bytes`](crate::Options::max_header_bytes).
        RaiseHeaderLimit = TENMAP_REMEDY_RAISE_HEADER_LIMIT,
        /// The file is not what it should be, or not complete: fetch it again.
        FetchAgain = TENMAP_REMEDY_FETCH_AGAIN,
        /// An interrupted edit can be finished or undone: `tenmap_repair_metadata`.
        Repair = TENMAP_REMEDY_REPAIR,
        /// Open without [`Options::dequantize`](crate::Options::dequantize).
        AsStored = TENMAP_REMEDY_AS_STORED,
        /// [`Options::later_wins`](crate::Options::later_wins).
        LaterWins = TENMAP_REMEDY_LATER_WINS,
        /// The file has changed: close the model, open it again.
        OpenAgain = TENMAP_REMEDY_OPEN_AGAIN,
        /// The same call, later: a program or server is busy.
        TryAgain = TENMAP_REMEDY_TRY_AGAIN,
        /// Another program converts or unpacks the file.
        Convert = TENMAP_REMEDY_CONVERT,
        /// A limit of the process: files, memory, locked pages.
        RaiseProcessLimit = TENMAP_REMEDY_RAISE_PROCESS_LIMIT,
        /// [`Tensor::read`](crate::Tensor::read), not a view or bytes.
        Read = TENMAP_REMEDY_READ,
        /// [`Tensor::parts`](crate::Tensor::parts) gives tensors that have bytes.
        Parts = TENMAP_REMEDY_PARTS,
        /// The path of one of the files or folders that it holds.
        OpenOne = TENMAP_REMEDY_OPEN_ONE,
        /// The server does not serve parts of files: fetch it whole.
        Download = TENMAP_REMEDY_DOWNLOAD,
        /// A token or keys that the server accepts.
        Credentials = TENMAP_REMEDY_CREDENTIALS,
    }
}

/// What went wrong. [`Display`](fmt::Display) writes the message, which is meant for the person who
/// has the model: it names the file, what was found and what would help.
///
/// ```
/// use tenmap::{Model, Status};
///
/// let error = Model::open("/none/model.safetensors").unwrap_err();
/// assert_eq!(error.status(), Status::NotFound);
/// assert!(error.to_string().starts_with("\"/none/model.safetensors\": "));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    status: Status,
    remedy: Remedy,
    os_error: i32,
    shard: u32,
    offset: u64,
    index: u64,
    message: String,
}

impl Error {
    /// What went wrong, for programs.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// What would help, for programs.
    pub fn remedy(&self) -> Remedy {
        self.0.remedy
    }

    /// One or two sentences, without control characters.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The system's error number, where the system refused.
    pub fn os_error(&self) -> Option<i32> {
        (self.0.os_error != 0).then_some(self.0.os_error)
    }

    /// Which shard, where one applies; else 0.
    pub fn shard(&self) -> u32 {
        self.0.shard
    }

    /// The byte offset in that file, where one applies; else 0.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Which request, weight, path or tensor (in file order), where one applies; else 0. The
    /// message names the tensor.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    pub(crate) fn new(status: Status, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            status,
            remedy: Remedy::None,
            os_error: 0,
            shard: 0,
            offset: 0,
            index: 0,
            message: message.into(),
        }))
    }

    fn from_c(error: &sys::tenmap_error) -> Error {
        // SAFETY: an array of c_char is an array of bytes.
        let bytes =
            unsafe { text::slice(error.message.as_ptr().cast::<u8>(), error.message.len()) };
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Error(Box::new(Inner {
            status: Status::from_raw(error.status).unwrap_or(Status::Unsupported),
            remedy: Remedy::from_raw(error.remedy).unwrap_or(Remedy::None),
            os_error: error.os_error,
            shard: error.shard,
            offset: error.offset,
            index: error.index,
            message: text::checked(&bytes[..end]).to_owned(),
        }))
    }

    /// Makes a call of the C API that returns a status.
    pub(crate) fn check(call: impl FnOnce(*mut sys::tenmap_error) -> i32) -> Result<()> {
        let mut error = Error::empty();
        match call(&mut error) {
            sys::TENMAP_OK => Ok(()),
            _ => Err(Error::from_c(&error)),
        }
    }

    /// Makes a call of the C API that returns NULL on failure.
    pub(crate) fn check_pointer<T>(
        call: impl FnOnce(*mut sys::tenmap_error) -> *const T,
    ) -> Result<*const T> {
        let mut error = Error::empty();
        let found = call(&mut error);
        if found.is_null() && error.status != sys::TENMAP_OK {
            return Err(Error::from_c(&error));
        }
        Ok(found)
    }

    fn empty() -> sys::tenmap_error {
        sys::tenmap_error {
            status: sys::TENMAP_OK,
            os_error: 0,
            shard: 0,
            remedy: 0,
            offset: 0,
            index: 0,
            message: [0; 480],
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        let kind = match error.status() {
            Status::NotFound => std::io::ErrorKind::NotFound,
            Status::Memory => std::io::ErrorKind::OutOfMemory,
            Status::Argument => std::io::ErrorKind::InvalidInput,
            Status::Format => std::io::ErrorKind::InvalidData,
            Status::Unsupported => std::io::ErrorKind::Unsupported,
            _ => std::io::ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn name(name: *const std::ffi::c_char) -> &'static str {
        // SAFETY: the library's names are static strings.
        unsafe { CStr::from_ptr(name) }.to_str().expect("ASCII")
    }

    #[test]
    fn every_status_and_remedy_of_the_library_is_here() {
        let (mut statuses, mut remedies) = (0, 0);
        for number in 1..1000 {
            // SAFETY: the calls have no conditions.
            let (status, remedy) = unsafe {
                (
                    name(sys::tenmap_status_name(number)),
                    name(sys::tenmap_remedy_name(number as u32)),
                )
            };
            assert_eq!(
                status != "TENMAP_ERR_UNKNOWN",
                Status::from_raw(number).is_some(),
                "{status}"
            );
            assert_eq!(remedy != "unknown", Remedy::from_raw(number as u32).is_some(), "{remedy}");
            statuses += usize::from(Status::from_raw(number).is_some());
            remedies += usize::from(Remedy::from_raw(number as u32).is_some());
        }
        assert!(statuses >= 13 && remedies >= 18, "{statuses} {remedies}");
    }
}
