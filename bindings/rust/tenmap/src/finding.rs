//! Everything that is wrong or odd about a model.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use tenmap_sys as sys;

use crate::error::from_c;
use crate::options::c_path;
use crate::{Error, Options, Remedy, Result, text};

from_c! {
    /// How bad a finding is.
    Severity: u32 {
        /// Allowed, and worth knowing.
        Note = TENMAP_FINDING_NOTE,
        /// The model opens, but something is probably not as intended.
        Warning = TENMAP_FINDING_WARNING,
        /// The model does not open with these options.
        Error = TENMAP_FINDING_ERROR,
    }
}

/// One finding of [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its kind, for programs: "hole", "truncated".
    pub code: &'static str,
    /// What would help, for programs.
    pub remedy: Remedy,
    /// The byte offset in the file, where one applies; else 0.
    pub offset: u64,
    /// The name of the tensor, where one applies.
    pub tensor: Option<String>,
    /// The message, which names the file and the tensor.
    pub message: String,
}

/// Returns everything that is wrong or odd about what `path` holds. There is an error among the
/// findings exactly if [`Options::open`] refuses the model. Reads headers only.
///
/// ```
/// # let path = tenmap::doc::model("check");
/// use tenmap::{Options, Severity};
///
/// let findings = tenmap::check(&path, &Options::new())?;
/// assert!(findings.iter().all(|finding| finding.severity != Severity::Error));
/// # Ok::<(), tenmap::Error>(())
/// ```
///
/// # Errors
///
/// Only if the check could not be carried out, as with a path that does not exist.
pub fn check(path: impl AsRef<Path>, options: &Options) -> Result<Vec<Finding>> {
    let path = c_path(path.as_ref())?;
    let options = options.to_c();
    let mut findings: Vec<Finding> = Vec::new();
    let ctx = ptr::from_mut(&mut findings).cast();
    // SAFETY: path and options live during the call, and so does the list of findings, which
    // nothing else uses meanwhile.
    Error::check(|e| unsafe { sys::tenmap_check(path.as_ptr(), &options, Some(found), ctx, e) })?;
    Ok(findings)
}

unsafe extern "C" fn found(ctx: *mut c_void, finding: *const sys::tenmap_finding) {
    // SAFETY: `ctx` is the list of the call that is running, which calls this on its own thread.
    // The finding and its texts live until this returns; names of codes are static.
    unsafe {
        let (findings, finding) = (&mut *ctx.cast::<Vec<Finding>>(), &*finding);
        findings.push(Finding {
            severity: Severity::from_raw(finding.severity).unwrap_or(Severity::Error),
            code: text::of_c(sys::tenmap_found_name(finding.code)),
            remedy: Remedy::from_raw(finding.remedy).unwrap_or(Remedy::None),
            offset: finding.offset,
            tensor: (!finding.tensor.is_null()).then(|| text::of_c(finding.tensor).to_owned()),
            message: text::of_c(finding.message).to_owned(),
        });
    }
}
