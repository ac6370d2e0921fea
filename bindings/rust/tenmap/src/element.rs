//! Rust's types of elements.

use crate::Dtype;

/// The bits of an IEEE half-precision number.
///
/// ```
/// assert_eq!(tenmap::F16(0x3c00).to_bits(), 0x3c00); // 1.0
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(
    /// The bits.
    pub u16,
);

impl F16 {
    /// The bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }
}

/// The bits of a BF16 number: the upper half of an `f32`.
///
/// ```
/// assert_eq!(tenmap::Bf16(0x3f80).to_f32(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bf16(
    /// The bits.
    pub u16,
);

impl Bf16 {
    /// The bits.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The value, which every `f32` of these upper bits has.
    pub const fn to_f32(self) -> f32 {
        f32::from_bits((self.0 as u32) << 16)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors can be viewed and read as: `f32`, `f64`, the integers, [`F16`] and [`Bf16`].
/// Elements of other dtypes are read as one of these, or as bytes
/// ([`Tensor::read_raw`](crate::Tensor::read_raw)).
///
/// # Safety
///
/// Every pattern of bits is a value of the type, it has no padding, and [`Element::DTYPE`] has its
/// size and its alignment.
pub unsafe trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The dtype.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($kind:ty: $dtype:ident,)*) => {
        $(
            impl sealed::Sealed for $kind {}
            // SAFETY: a number of Rust, or a transparent struct of one, of the dtype's width.
            unsafe impl Element for $kind {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*

        #[cfg(test)]
        #[test]
        fn elements_have_the_sizes_of_their_dtypes() {
            $(assert_eq!(<$kind>::DTYPE.bits(), Some(8 * size_of::<$kind>() as u32));)*
        }
    };
}

elements! {
    u8: U8, i8: I8, u16: U16, i16: I16, u32: U32, i32: I32, u64: U64, i64: I64, f32: F32, f64: F64,
    F16: F16, Bf16: Bf16,
}
