//! Element types.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use tenmap_sys as sys;

use crate::error::from_c;
use crate::{Error, Status, text};

from_c! {
    /// The type of a tensor's elements. [`Display`](fmt::Display) writes its name as headers do.
    ///
    /// ```
    /// use tenmap::{Dtype, Kind};
    ///
    /// assert_eq!(Dtype::Bf16.to_string(), "BF16");
    /// assert_eq!("Q4_K".parse::<Dtype>()?, Dtype::Q4K);
    /// assert_eq!((Dtype::F8E4m3.bits(), Dtype::F8E4m3.kind()), (Some(8), Kind::Float));
    /// assert_eq!(Dtype::Q4_0.block(), Some((32, 18)));
    /// # Ok::<(), tenmap::Error>(())
    /// ```
    Dtype: u32 {
        /// One byte, 0 or 1.
        Bool = TENMAP_BOOL,
        /// E2M1, two per byte, low nibble first.
        F4 = TENMAP_F4,
        /// E2M3, 6 bits.
        F6E2m3 = TENMAP_F6_E2M3,
        /// E3M2, 6 bits.
        F6E3m2 = TENMAP_F6_E3M2,
        /// `u8`.
        U8 = TENMAP_U8,
        /// `i8`.
        I8 = TENMAP_I8,
        /// E5M2, 8 bits.
        F8E5m2 = TENMAP_F8_E5M2,
        /// E4M3, 8 bits, without infinities.
        F8E4m3 = TENMAP_F8_E4M3,
        /// A power of two, 8 bits: a scale.
        F8E8m0 = TENMAP_F8_E8M0,
        /// E4M3 with another bias and one NaN.
        F8E4m3fnuz = TENMAP_F8_E4M3FNUZ,
        /// E5M2 with another bias and one NaN.
        F8E5m2fnuz = TENMAP_F8_E5M2FNUZ,
        /// `i16`.
        I16 = TENMAP_I16,
        /// `u16`.
        U16 = TENMAP_U16,
        /// IEEE half precision.
        F16 = TENMAP_F16,
        /// The upper half of an `f32`.
        Bf16 = TENMAP_BF16,
        /// `i32`.
        I32 = TENMAP_I32,
        /// `u32`.
        U32 = TENMAP_U32,
        /// `f32`.
        F32 = TENMAP_F32,
        /// Two `f32`: real, imaginary.
        C64 = TENMAP_C64,
        /// `f64`.
        F64 = TENMAP_F64,
        /// `i64`.
        I64 = TENMAP_I64,
        /// `u64`.
        U64 = TENMAP_U64,
        /// A block dtype of GGUF.
        Q4_0 = TENMAP_Q4_0,
        /// A block dtype of GGUF.
        Q4_1 = TENMAP_Q4_1,
        /// A block dtype of GGUF.
        Q5_0 = TENMAP_Q5_0,
        /// A block dtype of GGUF.
        Q5_1 = TENMAP_Q5_1,
        /// A block dtype of GGUF.
        Q8_0 = TENMAP_Q8_0,
        /// A block dtype of GGUF.
        Q8_1 = TENMAP_Q8_1,
        /// A block dtype of GGUF.
        Q2K = TENMAP_Q2_K,
        /// A block dtype of GGUF.
        Q3K = TENMAP_Q3_K,
        /// A block dtype of GGUF.
        Q4K = TENMAP_Q4_K,
        /// A block dtype of GGUF.
        Q5K = TENMAP_Q5_K,
        /// A block dtype of GGUF.
        Q6K = TENMAP_Q6_K,
        /// A block dtype of GGUF.
        Q8K = TENMAP_Q8_K,
        /// A block dtype of GGUF.
        Iq2Xxs = TENMAP_IQ2_XXS,
        /// A block dtype of GGUF.
        Iq2Xs = TENMAP_IQ2_XS,
        /// A block dtype of GGUF.
        Iq3Xxs = TENMAP_IQ3_XXS,
        /// A block dtype of GGUF.
        Iq1S = TENMAP_IQ1_S,
        /// A block dtype of GGUF.
        Iq4Nl = TENMAP_IQ4_NL,
        /// A block dtype of GGUF.
        Iq3S = TENMAP_IQ3_S,
        /// A block dtype of GGUF.
        Iq2S = TENMAP_IQ2_S,
        /// A block dtype of GGUF.
        Iq4Xs = TENMAP_IQ4_XS,
        /// A block dtype of GGUF.
        Iq1M = TENMAP_IQ1_M,
        /// A block dtype of GGUF.
        Tq1_0 = TENMAP_TQ1_0,
        /// A block dtype of GGUF.
        Tq2_0 = TENMAP_TQ2_0,
        /// A block dtype of GGUF.
        Mxfp4 = TENMAP_MXFP4,
        /// A block dtype of GGUF.
        Nvfp4 = TENMAP_NVFP4,
        /// A block dtype of GGUF.
        Q1_0 = TENMAP_Q1_0,
        /// A dtype that the library does not know, in a lenient open: bytes only.
        Opaque = TENMAP_OPAQUE,
    }
}

from_c! {
    /// What kind of number an element is.
    Kind: u32 {
        /// Of [`Dtype::Opaque`].
        None = TENMAP_KIND_NONE,
        /// True or false.
        Bool = TENMAP_KIND_BOOL,
        /// An integer without a sign.
        Uint = TENMAP_KIND_UINT,
        /// An integer with a sign.
        Int = TENMAP_KIND_INT,
        /// Floating-point, block dtypes included.
        Float = TENMAP_KIND_FLOAT,
        /// Two floating-point numbers.
        Complex = TENMAP_KIND_COMPLEX,
    }
}

impl Dtype {
    /// The name as headers write it: "BF16"; as ggml writes it for block dtypes: "Q4_K".
    pub fn name(self) -> &'static str {
        // SAFETY: the call has no conditions, and its result is a static string.
        unsafe { text::of_c(sys::tenmap_dtype_name(self.as_raw())) }
    }

    /// Bits per element; `None` for block dtypes and [`Dtype::Opaque`].
    pub fn bits(self) -> Option<u32> {
        // SAFETY: the call has no conditions.
        match unsafe { sys::tenmap_dtype_bits(self.as_raw()) } {
            0 => None,
            bits => Some(bits),
        }
    }

    /// The smallest number of elements that takes whole bytes, and those bytes.
    pub fn block(self) -> Option<(u32, u32)> {
        let (mut elements, mut bytes) = (0, 0);
        // SAFETY: both results are valid places.
        let known = unsafe { sys::tenmap_dtype_block(self.as_raw(), &mut elements, &mut bytes) };
        (known != 0).then_some((elements, bytes))
    }

    /// The bytes that `elements` elements take, next to each other. `None` for [`Dtype::Opaque`],
    /// for a number of elements that ends inside a block, and beyond 64 bits.
    ///
    /// ```
    /// assert_eq!(tenmap::Dtype::F4.bytes(3), Some(2));
    /// ```
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let mut bytes = 0;
        // SAFETY: the result is a valid place.
        let known = unsafe { sys::tenmap_dtype_bytes(self.as_raw(), elements, &mut bytes) };
        (known != 0).then_some(bytes)
    }

    /// What kind of number an element is.
    pub fn kind(self) -> Kind {
        // SAFETY: the call has no conditions.
        Kind::from_raw(unsafe { sys::tenmap_dtype_kind(self.as_raw()) }).unwrap_or(Kind::None)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(name: &str) -> Result<Dtype, Error> {
        let mut number = 0;
        let known = CString::new(name).is_ok_and(|name| {
            // SAFETY: the name is NUL-terminated, and the result is a valid place.
            unsafe { sys::tenmap_dtype_from_name(name.as_ptr(), &mut number) != 0 }
        });
        known
            .then(|| Dtype::from_raw(number))
            .flatten()
            .ok_or_else(|| Error::new(Status::NotFound, format!("there is no dtype {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_the_library_is_here() {
        let mut known = 0;
        for number in 1..1000 {
            // SAFETY: the call has no conditions, and its result is a static string.
            let name = unsafe { text::of_c(sys::tenmap_dtype_name(number)) };
            let dtype = Dtype::from_raw(number);
            if number == sys::TENMAP_OPAQUE {
                assert_eq!(dtype, Some(Dtype::Opaque));
                continue;
            }
            assert_eq!(name != "UNKNOWN", dtype.is_some(), "{number} {name}");
            if let Some(dtype) = dtype {
                assert_eq!((dtype.name(), dtype.as_raw()), (name, number));
                assert_eq!(name.parse::<Dtype>(), Ok(dtype));
                known += 1;
            }
        }
        assert!(known >= 48, "{known}");
        assert!("F33".parse::<Dtype>().is_err() && "F32\x00".parse::<Dtype>().is_err());
    }
}
