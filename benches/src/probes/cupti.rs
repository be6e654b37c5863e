//! CUPTI activity records: when each copy and each kernel ran on the GPU, in its own clock.
//!
//! The library is loaded at run time and spoken to through its public C interface. Only the fields that have kept
//! their place from CUDA 11.x to 13.x are read (checked with `offsetof` on the headers of 12.9 and 13.0); a major
//! version that was not checked is refused rather than misread.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use libloading::Library;
use scheidegg::{Error, Result};

/// `CUPTI_ACTIVITY_KIND_MEMCPY`.
const KIND_MEMCPY: u32 = 1;
/// `CUPTI_ACTIVITY_KIND_MEMSET`.
const KIND_MEMSET: u32 = 2;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`: unlike `KERNEL` it does not serialise kernels.
const KIND_KERNEL: u32 = 10;
/// Bytes of a buffer that CUPTI fills.
const BUFFER: usize = 8 << 20;

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// A copy from the host.
    H2d,
    /// A kernel.
    Kernel,
    /// A copy to the host.
    D2h,
    /// A copy or a fill within the GPU.
    Device,
}

impl Engine {
    /// Every engine, in the order of a frame's way.
    pub const ALL: [Engine; 4] = [Engine::H2d, Engine::Kernel, Engine::D2h, Engine::Device];

    /// The word in a table.
    pub const fn word(self) -> &'static str {
        match self {
            Engine::H2d => "h2d",
            Engine::Kernel => "kernel",
            Engine::D2h => "d2h",
            Engine::Device => "device",
        }
    }
}

/// One interval of work on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// What ran.
    pub engine: Engine,
    /// Start in ns of CUPTI's clock.
    pub start: u64,
    /// End in ns.
    pub end: u64,
    /// Bytes of a copy or fill; threads of a kernel.
    pub amount: u64,
    /// The stream it ran in.
    pub stream: u32,
    /// A kernel's name; empty for copies.
    pub name: String,
    /// A kernel's registers a thread.
    pub registers: u16,
}

type GetNext = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32;
type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

struct Api {
    enable: unsafe extern "C" fn(u32) -> u32,
    disable: unsafe extern "C" fn(u32) -> u32,
    flush: unsafe extern "C" fn(u32) -> u32,
    next: GetNext,
    /// Keeps the functions above alive; the statics below are never dropped.
    _library: Library,
}

/// CUPTI has one set of callbacks a process, so what they need is one a process too.
static API: OnceLock<Api> = OnceLock::new();
static RECORDS: Mutex<Vec<Activity>> = Mutex::new(Vec::new());

/// Activity recording, switched on for the life of the process.
pub struct Cupti {
    /// Where the library was found.
    pub path: PathBuf,
    /// Its API version.
    pub version: u32,
}

fn skip(reason: impl Into<String>) -> Error {
    Error::Unavailable { backend: "cupti".into(), reason: reason.into() }
}

/// Reads a field of a record.
///
/// # Safety
/// `record + offset` must point to a readable `T`; no alignment is needed.
unsafe fn field<T: Copy>(record: *const u8, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { record.add(offset).cast::<T>().read_unaligned() }
}

unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    // u64s, because CUPTI wants the buffer aligned to 8; given back in `complete`.
    let memory = Box::leak(vec![0u64; BUFFER / 8].into_boxed_slice());
    // SAFETY: CUPTI passes three valid places to write to.
    unsafe {
        *buffer = memory.as_mut_ptr().cast();
        *size = BUFFER;
        *records = 0;
    }
}

unsafe extern "C" fn complete(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    let mut record: *mut u8 = std::ptr::null_mut();
    if let (Some(api), Ok(mut records)) = (API.get(), RECORDS.lock()) {
        // SAFETY: `buffer` holds `valid` bytes of records and `record` is null or the record before.
        while valid > 0 && unsafe { (api.next)(buffer, valid, &raw mut record) } == 0 {
            // SAFETY: CUPTI returned a whole record.
            records.extend(unsafe { read(record) });
        }
    }
    // SAFETY: this is the memory that `request` leaked, of that very length, and CUPTI is done with it.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), BUFFER / 8)) });
}

/// One record as an [`Activity`], unless it is of another kind or has no times.
///
/// # Safety
/// `record` must be a record that `cuptiActivityGetNextRecord` returned.
unsafe fn read(record: *const u8) -> Option<Activity> {
    // SAFETY: `kind` leads every record; the other offsets are those of CUpti_ActivityMemcpy6, Memset4 and Kernel9/10,
    // whose kinds have just been told apart. All lie within the record.
    unsafe {
        let (start, end) = match field::<u32>(record, 0) {
            KIND_MEMCPY | KIND_MEMSET | KIND_KERNEL => (field::<u64>(record, 16), field::<u64>(record, 24)),
            _ => return None,
        };
        // A record without times: CUPTI had no memory on the device for them.
        if start == 0 || end < start {
            return None;
        }
        let copy = |engine, stream| Activity {
            engine,
            start,
            end,
            amount: field::<u64>(record, 8),
            stream,
            name: String::new(),
            registers: 0,
        };
        Some(match field::<u32>(record, 0) {
            KIND_MEMCPY => copy(
                match field::<u8>(record, 4) {
                    1 | 3 => Engine::H2d,
                    2 | 4 => Engine::D2h,
                    _ => Engine::Device,
                },
                field::<u32>(record, 40),
            ),
            KIND_MEMSET => copy(Engine::Device, field::<u32>(record, 40)),
            _ => {
                let side = |i: usize| u64::from(field::<u32>(record, 52 + 4 * i));
                let name = field::<*const c_char>(record, 104);
                Activity {
                    engine: Engine::Kernel,
                    start,
                    end,
                    amount: (0..6).map(side).product(),
                    stream: field::<u32>(record, 48),
                    name: match name.is_null() {
                        true => String::new(),
                        false => CStr::from_ptr(name).to_string_lossy().into_owned(),
                    },
                    registers: field::<u16>(record, 6),
                }
            }
        })
    }
}

impl Cupti {
    /// Finds CUPTI and switches recording on. To be called before the first CUDA context.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the library is missing, of an unknown version, or refuses.
    pub fn start() -> Result<Cupti> {
        if API.get().is_some() {
            return Err(skip("recording is on already"));
        }
        let mut tried = Vec::new();
        for path in candidates() {
            // SAFETY: loading CUPTI runs its initialisers, which need nothing from us.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Self::switch_on(library, path),
                Err(e) => tried.push(format!("{}: {e}", path.display())),
            }
        }
        Err(skip(format!("no libcupti could be loaded ({})", tried.join("; "))))
    }

    fn switch_on(library: Library, path: PathBuf) -> Result<Cupti> {
        macro_rules! symbol {
            ($name:literal, $type:ty) => {
                // SAFETY: the type is that of the public header.
                *unsafe { library.get::<$type>(concat!($name, "\0").as_bytes()) }
                    .map_err(|e| skip(format!("{}: {e}", path.display())))?
            };
        }
        let version_of = symbol!("cuptiGetVersion", unsafe extern "C" fn(*mut u32) -> u32);
        let register =
            symbol!("cuptiActivityRegisterCallbacks", unsafe extern "C" fn(Request, Complete) -> u32);
        let api = Api {
            enable: symbol!("cuptiActivityEnable", unsafe extern "C" fn(u32) -> u32),
            disable: symbol!("cuptiActivityDisable", unsafe extern "C" fn(u32) -> u32),
            flush: symbol!("cuptiActivityFlushAll", unsafe extern "C" fn(u32) -> u32),
            next: symbol!("cuptiActivityGetNextRecord", GetNext),
            _library: library,
        };
        let mut version = 0;
        // SAFETY: one place to write to.
        let code = unsafe { version_of(&raw mut version) };
        // 18 to 28 is CUDA 11.8 to 12.9; from 13.0 on the number is that of CUDA, as 130000.
        if code != 0 || !matches!(version, 18..=28 | 130_000..140_000) {
            return Err(skip(format!(
                "{}: API version {version} is not one whose records were checked (18 to 28, 130000 to 139999)",
                path.display()
            )));
        }
        let api = API.get_or_init(|| api);
        let check = |what: &str, code: u32| match code {
            0 => Ok(()),
            code => Err(skip(format!("{what} returns {code}"))),
        };
        // SAFETY: the callbacks have the types of the header and live as long as the process.
        check("cuptiActivityRegisterCallbacks", unsafe { register(request, complete) })?;
        for kind in [KIND_MEMCPY, KIND_MEMSET, KIND_KERNEL] {
            // SAFETY: a plain call.
            check("cuptiActivityEnable", unsafe { (api.enable)(kind) })?;
        }
        Ok(Cupti { path, version })
    }

    /// Everything recorded since the last call, by start. The GPU must be idle (synchronised).
    pub fn take(&self) -> Vec<Activity> {
        if let Some(api) = API.get() {
            // SAFETY: a plain call; 1 asks for unfinished buffers too.
            unsafe { (api.flush)(1) };
        }
        let mut all = RECORDS.lock().map(|mut r| std::mem::take(&mut *r)).unwrap_or_default();
        all.sort_by_key(|a| a.start);
        all
    }
}

impl Drop for Cupti {
    fn drop(&mut self) {
        if let Some(api) = API.get() {
            for kind in [KIND_MEMCPY, KIND_MEMSET, KIND_KERNEL] {
                // SAFETY: a plain call.
                unsafe { (api.disable)(kind) };
            }
        }
    }
}

/// Where the library may be: `SCHEIDEGG_CUPTI`, the loader's path, then the usual places of toolkits and wheels.
fn candidates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::env::var_os("SCHEIDEGG_CUPTI").map(PathBuf::from).into_iter().collect();
    let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
    found.extend(names.iter().map(PathBuf::from));
    for root in ["/usr/local", "/opt", "/usr/lib/x86_64-linux-gnu"] {
        search(Path::new(root), 0, &mut found);
    }
    found
}

fn search(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // /opt/NAME/.venv/lib/python3.x/site-packages/nvidia/cu13/lib is nine folders down.
    if depth > 10 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // Only ways that lead to CUPTI: a whole Python installation has a hundred thousand other files.
            let wanted = depth == 0
                || [
                    "nvidia", "cuda", "cupti", "CUPTI", "extras", "lib", "venv", "python", "packages", "cu1",
                    "torch", "targets", "x86_64",
                ]
                .iter()
                .any(|w| name.contains(w));
            if wanted {
                search(&entry.path(), depth + 1, found);
            }
        } else if name.starts_with("libcupti.so") {
            found.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_at_the_offsets_of_the_header() {
        let mut record = [0u8; 160];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &KIND_MEMCPY.to_ne_bytes());
        put(4, &[2]);
        put(8, &94_000u64.to_ne_bytes());
        put(16, &1000u64.to_ne_bytes());
        put(24, &3000u64.to_ne_bytes());
        put(40, &7u32.to_ne_bytes());
        // SAFETY: 160 bytes, longer than any record that is read.
        let copy = unsafe { read(record.as_ptr()) }.unwrap();
        assert_eq!((copy.engine, copy.amount, copy.stream), (Engine::D2h, 94_000, 7));

        let mut record = [0u8; 160];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &KIND_KERNEL.to_ne_bytes());
        put(6, &40u16.to_ne_bytes());
        put(16, &10u64.to_ne_bytes());
        put(24, &12u64.to_ne_bytes());
        put(48, &9u32.to_ne_bytes());
        for (i, side) in [625u32, 1, 1, 256, 1, 1].into_iter().enumerate() {
            put(52 + 4 * i, &side.to_ne_bytes());
        }
        put(104, &(c"find".as_ptr() as usize).to_ne_bytes());
        // SAFETY: as above.
        let kernel = unsafe { read(record.as_ptr()) }.unwrap();
        assert_eq!((kernel.engine, kernel.amount, kernel.stream), (Engine::Kernel, 160_000, 9));
        assert_eq!((kernel.name.as_str(), kernel.registers), ("find", 40));
    }

    #[test]
    fn a_record_without_times_or_of_another_kind_is_left_out() {
        let mut record = [0u8; 160];
        record[0] = 1;
        // SAFETY: 160 bytes, longer than any record that is read.
        assert!(unsafe { read(record.as_ptr()) }.is_none());
        record[0] = 5;
        record[16] = 1;
        record[24] = 2;
        // SAFETY: as above.
        assert!(unsafe { read(record.as_ptr()) }.is_none());
    }
}
