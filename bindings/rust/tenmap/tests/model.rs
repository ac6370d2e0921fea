//! The safe crate keeps the C contract: views, reads, loads, takes, errors, lifetimes, threads.

use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::slice::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenmap::*;

/// A folder for the files of one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tenmap-test-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a model of four tensors, of which the last is misaligned, and returns its path.
fn write(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.file(name);
    let mut writer = WriterOptions::new().keep_order().data_alignment(64).create(&path).unwrap();
    writer.metadata("format", "pt").unwrap();
    let ramp = writer.add("ramp", Dtype::F32, &[4, 6]).unwrap();
    let half = writer.add("half", Dtype::F16, &[2]).unwrap();
    let byte = writer.add("byte", Dtype::I8, &[1]).unwrap();
    let odd = writer.add("odd", Dtype::F32, &[2]).unwrap();
    writer.write(ramp, &(0..24).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    writer.write(half, &[F16(0x3c00), F16(0xc000)]).unwrap();
    writer.write(byte, &[-5i8]).unwrap();
    writer.write(odd, &[0.5f32, 0.25]).unwrap();
    writer.commit().unwrap();
    path
}

#[test]
fn views_check_dtype_and_alignment_and_reads_convert() {
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let names: Vec<_> = model.tensors().map(Tensor::name).collect();
    assert_eq!(names, ["ramp", "half", "byte", "odd"]);
    assert_eq!(model.tensors().next_back().unwrap().name(), "odd");
    assert_eq!((&model).into_iter().len(), 4);

    let ramp = model.tensor("ramp").unwrap();
    let view: &[f32] = ramp.view().unwrap();
    assert_eq!((view.len(), view[23], ramp.shape()), (24, 23.0, &[4, 6][..]));
    assert_eq!(view.as_ptr().cast::<u8>(), ramp.bytes().unwrap().as_ptr());
    assert_eq!(ramp.view::<i32>().unwrap_err().status(), Status::Dtype);
    assert_eq!(ramp.read::<f64>().unwrap()[5], 5.0);
    assert_eq!(ramp.read_range::<f32>(3..5).unwrap(), [3.0, 4.0]);
    assert_eq!(ramp.read_slice::<f32>(&[1..3, 5..6]).unwrap(), [11.0, 17.0]);
    assert_eq!(ramp.read_slice::<f32>(&[1..1, 5..6]).unwrap(), []);
    assert_eq!(ramp.read::<i32>().unwrap_err().status(), Status::Unsupported);
    assert_eq!(ramp.read_bytes().unwrap(), ramp.bytes().unwrap());

    let odd = model.tensor("odd").unwrap();
    assert_eq!(odd.view::<f32>().unwrap_err().status(), Status::Alignment);
    assert_eq!(odd.read::<f32>().unwrap(), [0.5, 0.25]);
    let half = model.tensor("half").unwrap();
    assert_eq!(half.view::<F16>().unwrap(), [F16(0x3c00), F16(0xc000)]);
    assert_eq!(half.read::<f32>().unwrap(), [1.0, -2.0]);
    assert_eq!(half.read::<Bf16>().unwrap(), [Bf16(0x3f80), Bf16(0xc000)]);
    let byte = model.tensor("byte").unwrap();
    assert_eq!(byte.read::<i64>().unwrap(), [-5]);
    assert_eq!(byte.read::<u8>().unwrap_err().status(), Status::Range);
}

#[test]
fn ranges_and_buffers_are_checked() {
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let ramp = model.tensor("ramp").unwrap();
    let status = |result: Result<Vec<f32>>| result.unwrap_err().status();
    assert_eq!(status(ramp.read_range(20..25)), Status::Range);
    assert_eq!(status(ramp.read_range(0..u64::MAX)), Status::Range);
    assert_eq!(status(ramp.read_slice(&[0..5, 0..1])), Status::Range);
    assert_eq!(status(ramp.read_slice(&[Range { start: 2, end: 1 }, 0..1])), Status::Range);
    assert_eq!(status(ramp.read_slice(from_ref(&(0..4)))), Status::Argument);
    assert_eq!(ramp.read_into(&mut [0f32; 23]).unwrap_err().status(), Status::Buffer);
    assert_eq!(
        ramp.read_raw(0, 24, Dtype::F32, &mut [0; 95], false).unwrap_err().status(),
        Status::Buffer
    );
    let mut all = [0f32; 24];
    ramp.read_into(&mut all).unwrap();
    assert_eq!(all[7], 7.0);
}

#[test]
fn without_a_mapping_there_are_no_views_and_changes_are_errors() {
    let folder = Folder::new();
    let path = write(&folder, "m.safetensors");
    let model = Options::new().backend(Backend::Read).open(&path).unwrap();
    let ramp = model.tensor("ramp").unwrap();
    assert_eq!(ramp.bytes(), None);
    assert_eq!(ramp.view::<f32>().unwrap_err().status(), Status::Unsupported);
    assert_eq!(ramp.read::<f32>().unwrap()[23], 23.0);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300).unwrap();
    assert_eq!(ramp.read::<f32>().unwrap_err().status(), Status::Io);
}

#[test]
fn errors_have_status_message_remedy_and_offset() {
    let folder = Folder::new();
    let path = write(&folder, "m.safetensors");
    let error = Model::open(folder.file("none")).unwrap_err();
    assert_eq!((error.status(), error.remedy()), (Status::NotFound, Remedy::None));
    assert!(error.message().contains("no such file"), "{error}");
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);

    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([1, 2, 3]);
    let error = Options::new().open_memory(&bytes).unwrap_err();
    assert_eq!((error.status(), error.remedy()), (Status::Format, Remedy::AllowLenient));
    assert!(error.offset() > 0, "{error:?}");
    assert_eq!(Options::new().lenient(true).open_memory(&bytes).unwrap().len(), 4);
    let error = Model::open("a\0b").unwrap_err();
    assert_eq!(error.status(), Status::Argument);
    let model = Model::open(&path).unwrap();
    let error = model.tensor("none").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    assert!(error.message().contains("there is no tensor \"none\""), "{error}");

    fs::write(&path, &bytes).unwrap();
    let findings = check(&path, &Options::new()).unwrap();
    let worst = findings.iter().find(|finding| finding.severity == Severity::Error).unwrap();
    assert_eq!((worst.code, worst.remedy), ("trailing", Remedy::AllowLenient));
}

#[test]
fn models_are_shared_by_threads_and_outlive_them() {
    fn shared<T: Send + Sync>() {}
    shared::<Model>();
    shared::<Tensor<'_>>();
    shared::<Shard<'_>>();
    shared::<Metadata<'_>>();
    shared::<Taken<'_>>();
    shared::<Error>();
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| model.get("ramp").unwrap().read::<f32>().unwrap().iter().sum()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(sums, [276.0; 8]);
    let moved = std::thread::spawn(move || model.len()).join().unwrap();
    assert_eq!(moved, 4);
}

#[test]
fn loads_fill_buffers_report_progress_and_name_what_failed() {
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let (ramp, odd) = (model.tensor("ramp").unwrap(), model.tensor("odd").unwrap());
    let (mut block, mut raw, mut seen) = ([0f32; 2], [0u8; 4], Vec::new());
    let mut requests = [
        Request::new(ramp, &mut block).block(&[3..4, 4..6]),
        Request::raw(odd, Dtype::F16, &mut raw).saturate(),
    ];
    let options = LoadOptions::new().threads(2).checked_reads().progress(|done, total| {
        seen.push((done, total));
        ControlFlow::Continue(())
    });
    model.load(&mut requests, options).unwrap();
    assert_eq!((block, raw), ([22.0, 23.0], [0x00, 0x38, 0x00, 0x34]));
    assert_eq!((seen[0].0, seen.last().unwrap().0), (0, seen[0].1));

    let (mut good, mut small) = ([0f32; 2], [0f32; 1]);
    let mut requests = [Request::new(odd, &mut good), Request::new(ramp, &mut small)];
    let error = load(&mut requests, LoadOptions::new()).unwrap_err();
    assert_eq!((error.status(), error.index()), (Status::Buffer, 1));
    assert!(error.message().contains("ramp"), "{error}");
    let mut requests = [Request::new(ramp, &mut small).block(from_ref(&(0..1)))];
    let error = model.load(&mut requests, LoadOptions::new()).unwrap_err();
    assert_eq!(error.status(), Status::Argument);
}

#[test]
fn a_panic_in_a_callback_goes_on_after_the_call() {
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let caught = std::panic::catch_unwind(|| {
        let mut values = [0f32; 24];
        let mut requests = [Request::new(model.tensor("ramp").unwrap(), &mut values)];
        model.load(&mut requests, LoadOptions::new().progress(|_, _| panic!("planned")))
    });
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"planned"));
    assert_eq!(model.tensor("ramp").unwrap().read::<f32>().unwrap()[1], 1.0);
}

#[test]
fn takes_are_views_or_in_the_arena() {
    let folder = Folder::new();
    let model = Model::open(write(&folder, "m.safetensors")).unwrap();
    let wants = [
        Want::new("ramp").shape(&[4, Want::ANY_EXTENT]),
        Want::new("half").dtype(Dtype::F32),
        Want::new("none").optional(),
    ];
    let taken = model.take(&wants, LoadOptions::new()).unwrap();
    assert_eq!(
        taken.bytes(0).unwrap().as_ptr(),
        model.get("ramp").unwrap().bytes().unwrap().as_ptr()
    );
    assert_eq!(taken.get::<f32>(1).unwrap(), [1.0, -2.0]);
    assert_eq!(taken.get::<F16>(1).unwrap_err().status(), Status::Dtype);
    assert_eq!(taken.get::<f32>(2).unwrap_err().status(), Status::NotFound);
    assert!(taken.tensor(2).is_none() && taken.tensor(0).unwrap().name() == "ramp");
    let error = model.take(&[Want::new("ramp").shape(&[5, 5])], LoadOptions::new()).unwrap_err();
    assert_eq!(error.status(), Status::Range);
}

#[test]
fn quantized_weights_are_one_tensor_if_asked() {
    let folder = Folder::new();
    let path = folder.file("m.safetensors");
    let mut writer = Writer::create(&path).unwrap();
    let codes = writer.add("l.weight", Dtype::F8E4m3, &[2, 2]).unwrap();
    let scale = writer.add("l.weight_scale_inv", Dtype::F32, &[1, 1]).unwrap();
    writer.write_bytes(codes, 0, &[0x38, 0x40, 0x44, 0xb8]).unwrap();
    writer.write(scale, &[0.5f32]).unwrap();
    writer.commit().unwrap();
    assert_eq!(Model::open(&path).unwrap().len(), 2);
    let model = Options::new().dequantize(true).open(&path).unwrap();
    let weight = model.tensor("l.weight").unwrap();
    assert!(model.len() == 1 && weight.is_computed() && weight.bytes().is_none());
    assert_eq!((weight.scheme().name, weight.scheme().bits), ("fp8-tensor", 8));
    assert_eq!(weight.read::<f32>().unwrap(), [0.5, 1.0, 1.5, -0.5]);
    assert_eq!(weight.view::<f32>().unwrap_err().status(), Status::Unsupported);
    let parts: Vec<_> = weight.parts().map(|part| (part.name(), part.dtype())).collect();
    assert_eq!(parts, [("l.weight", Dtype::F8E4m3), ("l.weight_scale_inv", Dtype::F32)]);
}

/// A GGUF file without tensors, with one pair of each of some types.
fn gguf() -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(0u64.to_le_bytes());
    file.extend(4u64.to_le_bytes());
    let mut pair = |key: &str, kind: u32, value: &[u8]| {
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.as_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(value);
    };
    pair("general.architecture", 8, b"\x05\0\0\0\0\0\0\0llama");
    pair("scale", 6, &0.5f32.to_le_bytes());
    pair("flag", 7, &[1]);
    let words = [
        &8u32.to_le_bytes()[..],
        &2u64.to_le_bytes(),
        &1u64.to_le_bytes(),
        b"a",
        &2u64.to_le_bytes(),
        b"bc",
    ];
    pair("words", 9, &words.concat());
    file
}

#[test]
fn metadata_has_the_types_of_its_file() {
    let bytes = gguf();
    let model = Options::new().open_memory(&bytes).unwrap();
    let pairs: Vec<_> = model.metadata().map(|pair| (pair.key(), pair.value())).collect();
    assert_eq!(pairs[0], ("general.architecture", Value::String("llama".into())));
    assert_eq!(pairs[1], ("scale", Value::F32(0.5)));
    assert_eq!(pairs[2], ("flag", Value::Bool(true)));
    let Value::Array(words) = &pairs[3].1 else { panic!("{pairs:?}") };
    assert_eq!(words.len(), 2);
    let words: Vec<_> = words.clone().collect();
    assert_eq!(words, [Value::String("a".into()), Value::String("bc".into())]);
    assert_eq!(model.metadata_text("scale"), Some("0.5"));
    assert_eq!(model.metadata_text("none"), None);
    assert_eq!(model.shards().next().unwrap().format(), "gguf");
}

#[test]
fn folders_lists_and_descriptors_open_too() {
    let folder = Folder::new();
    let path = write(&folder, "model.safetensors");
    let model = Model::open(&folder.0).unwrap();
    assert_eq!((model.len(), model.folder()), (4, folder.0.to_str().unwrap()));
    let shard = model.shards().next().unwrap();
    assert_eq!((shard.tensors(), shard.size()), (0..4, model.file_size()));
    assert!(model.index_json().is_none());
    assert_eq!(Options::new().open_list(&[&path, &path]).unwrap_err().status(), Status::Format);
    let twice = Options::new().later_wins(true).open_list(&[&path, &path]).unwrap();
    assert_eq!(twice.len(), 4);
    #[cfg(unix)]
    {
        let file = fs::File::open(&path).unwrap();
        assert_eq!(Options::new().open_file(&file).unwrap().path(), "");
    }
    let mut index = folder.file("m.safetensors.index.json");
    fs::write(&index, r#"{"weight_map": {"a": "none.safetensors"}}"#).unwrap();
    assert_eq!(Model::open(&index).unwrap_err().remedy(), Remedy::AllowPartial);
    let partial = Options::new().partial(true).open(&mut index).unwrap();
    assert_eq!(partial.missing().collect::<Vec<_>>(), ["none.safetensors"]);
}

#[test]
fn residency_and_detaching() {
    let folder = Folder::new();
    let path = write(&folder, "m.safetensors");
    let mut model = Model::open(&path).unwrap();
    model.advise(Advice::Populate).unwrap();
    model.tensor("ramp").unwrap().advise(Advice::Release).unwrap();
    if cfg!(target_os = "linux") {
        assert!(model.resident().unwrap() <= model.file_size());
        model.detach(LoadOptions::new()).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert_eq!(model.tensor("ramp").unwrap().view::<f32>().unwrap()[23], 23.0);
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_no_file() {
    let folder = Folder::new();
    let path = folder.file("m.safetensors");
    let mut writer = Writer::create(&path).unwrap();
    let id = writer.add("a", Dtype::U8, &[2]).unwrap();
    assert_eq!(writer.add("a", Dtype::U8, &[2]).unwrap_err().status(), Status::Argument);
    writer.write(id, &[1u8]).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    let mut writer = Writer::create(&path).unwrap();
    writer.add("a", Dtype::U8, &[2]).unwrap();
    assert!(writer.commit().is_err());
    assert!(!path.exists());
    let source = Model::open(write(&folder, "s.safetensors")).unwrap();
    let mut writer = Writer::create(&path).unwrap();
    let id = writer.add("ramp", Dtype::Bf16, &[4, 6]).unwrap();
    writer.copy(id, source.tensor("ramp").unwrap()).unwrap();
    writer.commit().unwrap();
    assert_eq!(Model::open(&path).unwrap().at(0).unwrap().read::<f32>().unwrap()[9], 9.0);
}
