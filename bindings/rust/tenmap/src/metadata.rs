//! Metadata of files.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use tenmap_sys as sys;

use crate::text;

/// One pair of a file's metadata: of `__metadata__`, or of a GGUF file.
#[derive(Clone, Copy)]
pub struct Metadata<'m>(&'m sys::tenmap_metadata);

// SAFETY: a view of an immutable model, which any number of threads may use.
unsafe impl Send for Metadata<'_> {}
// SAFETY: as above.
unsafe impl Sync for Metadata<'_> {}

/// A value of metadata. SafeTensors has strings only; GGUF has all of these.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'m> {
    /// `u8`.
    U8(u8),
    /// `i8`.
    I8(i8),
    /// `u16`.
    U16(u16),
    /// `i16`.
    I16(i16),
    /// `u32`.
    U32(u32),
    /// `i32`.
    I32(i32),
    /// `f32`.
    F32(f32),
    /// True or false.
    Bool(bool),
    /// As the file has it: UTF-8 in SafeTensors, any bytes in GGUF, which are replaced here where
    /// they are not UTF-8. [`Metadata::bytes`] has the originals.
    String(Cow<'m, str>),
    /// Several values of one type.
    Array(Array<'m>),
    /// `u64`.
    U64(u64),
    /// `i64`.
    I64(i64),
    /// `f64`.
    F64(f64),
}

impl<'m> Metadata<'m> {
    pub(crate) fn new(pair: &'m sys::tenmap_metadata) -> Metadata<'m> {
        Metadata(pair)
    }

    /// The key.
    pub fn key(&self) -> &'m str {
        // SAFETY: the key has `key_len` bytes and lives as long as the model.
        text::checked(unsafe { text::slice(self.0.key.cast(), self.0.key_len) })
    }

    /// The value as text: "32", "1e-05", "true"; "" for an array.
    pub fn text(&self) -> Cow<'m, str> {
        String::from_utf8_lossy(self.bytes())
    }

    /// The bytes of [`Metadata::text`].
    pub fn bytes(&self) -> &'m [u8] {
        // SAFETY: the value has `value_len` bytes and lives as long as the model.
        unsafe { text::slice(self.0.value.cast(), self.0.value_len) }
    }

    /// The value.
    pub fn value(&self) -> Value<'m> {
        if self.0.r#type == sys::TENMAP_VALUE_STRING {
            return Value::String(self.text());
        }
        let mut value = empty();
        // SAFETY: the pair is valid, and so is the place of the result.
        unsafe { sys::tenmap_metadata_value(self.0, &mut value) };
        decode(value)
    }

    /// Which of [`Model::shards`](crate::Model::shards) the pair is in.
    pub fn shard(&self) -> usize {
        self.0.shard as usize
    }
}

impl fmt::Debug for Metadata<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata").field("key", &self.key()).field("value", &self.value()).finish()
    }
}

/// The elements of an array, which are not copied: an iterator.
pub struct Array<'m> {
    rest: sys::tenmap_value,
    model: PhantomData<&'m sys::tenmap_metadata>,
}

// SAFETY: a view of an immutable model, which any number of threads may use.
unsafe impl Send for Array<'_> {}
// SAFETY: as above; only `&mut` changes the position.
unsafe impl Sync for Array<'_> {}

impl<'m> Iterator for Array<'m> {
    type Item = Value<'m>;

    fn next(&mut self) -> Option<Value<'m>> {
        let mut element = empty();
        // SAFETY: both are valid and different; the bytes of the array live as long as the model.
        let found = unsafe { sys::tenmap_value_next(&mut self.rest, &mut element) } != 0;
        found.then(|| decode(element))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.rest.count).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Array<'_> {}

impl Clone for Array<'_> {
    fn clone(&self) -> Self {
        Array { rest: sys::tenmap_value { ..self.rest }, model: PhantomData }
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.clone().eq(other.clone())
    }
}

fn empty() -> sys::tenmap_value {
    sys::tenmap_value { r#type: 0, element_type: 0, count: 0, raw: std::ptr::null(), raw_bytes: 0 }
}

/// Reads a value from its bytes, which are those of the file.
fn decode<'m>(value: sys::tenmap_value) -> Value<'m> {
    if value.r#type == sys::TENMAP_VALUE_ARRAY {
        return Value::Array(Array { rest: value, model: PhantomData });
    }
    let len = usize::try_from(value.raw_bytes).unwrap_or(0);
    // SAFETY: the value has `raw_bytes` bytes, which live as long as the model.
    let bytes: &'m [u8] = unsafe { text::slice(value.raw.cast(), len) };
    macro_rules! number {
        ($variant:ident, $number:ty) => {
            bytes.first_chunk().map(|bytes| Value::$variant(<$number>::from_le_bytes(*bytes)))
        };
    }
    let number = match value.r#type {
        sys::TENMAP_VALUE_U8 => number!(U8, u8),
        sys::TENMAP_VALUE_I8 => number!(I8, i8),
        sys::TENMAP_VALUE_U16 => number!(U16, u16),
        sys::TENMAP_VALUE_I16 => number!(I16, i16),
        sys::TENMAP_VALUE_U32 => number!(U32, u32),
        sys::TENMAP_VALUE_I32 => number!(I32, i32),
        sys::TENMAP_VALUE_F32 => number!(F32, f32),
        sys::TENMAP_VALUE_BOOL => bytes.first().map(|&byte| Value::Bool(byte != 0)),
        sys::TENMAP_VALUE_U64 => number!(U64, u64),
        sys::TENMAP_VALUE_I64 => number!(I64, i64),
        sys::TENMAP_VALUE_F64 => number!(F64, f64),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes)))
}
