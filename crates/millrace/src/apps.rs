//! Programs: a Baker file, a directory with one, or the name of an application that comes with Millrace.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use baker::check::{Compilation, hir};
use baker::diag::Diagnostic;
use baker::library::Beside;
use baker::place::Placement;
use baker::{diag, ir};
use cli::failure::Failure;
use codegen::bpf;
use codegen::kernel::Hook;
use rust_embed::RustEmbed;

/// The folders of applications without their controllers, which are crates.
#[derive(RustEmbed)]
#[folder = "../../apps"]
#[exclude = "*/controller/*"]
#[exclude = "media/cache/*"]
struct Apps;

/// A file of an application, by its path in `apps`.
fn built_in(path: &str) -> Option<Cow<'static, [u8]>> {
    Apps::get(path).map(|file| file.data)
}

/// The same as text.
fn built_in_text(path: &str) -> Option<String> {
    String::from_utf8(built_in(path)?.into_owned()).ok()
}

/// A program's source.
pub struct Source {
    /// Name shown in messages.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The configuration beside it, with its name, if there is one.
    pub config: Option<(String, String)>,
    /// Whether all of it is built into this program, and so can't change.
    pub built_in: bool,
    /// The packets beside it to measure with (`trace.pcapng`), with the file's name.
    pub trace: Option<(String, Vec<u8>)>,
    /// The configuration that those find (`trace.toml`), where it is another one.
    trace_config: Option<(String, String)>,
}

impl Source {
    /// The case files beside it, by name: those in `cases/NAME` of a program NAME.baker, where there is such a folder,
    /// else those in `cases`. The failure: the folder in which there is none.
    pub fn cases(&self) -> Result<Vec<PathBuf>, PathBuf> {
        let path = Path::new(&self.name);
        let all = path.parent().unwrap_or(Path::new("")).join("cases");
        let own = path.file_stem().map(|stem| all.join(stem));
        let own = own.map(|folder| self.case_files(&folder)).filter(|files| !files.is_empty());
        let files = own.unwrap_or_else(|| self.case_files(&all));
        if files.is_empty() { Err(all) } else { Ok(files) }
    }

    fn case_files(&self, folder: &Path) -> Vec<PathBuf> {
        if !self.built_in {
            return control::cases::files(folder).unwrap_or_default();
        }
        let mut files: Vec<PathBuf> = Apps::iter().map(|path| Path::new(BUILT_IN).join(&*path)).collect();
        files.retain(|path| path.parent() == Some(folder) && path.extension().is_some_and(|end| end == "toml"));
        files.sort();
        files
    }

    /// A file that belongs to it, as text.
    pub fn file(&self, path: &Path) -> std::io::Result<String> {
        if !self.built_in {
            return std::fs::read_to_string(path);
        }
        let inside = normal(path);
        let text = inside.strip_prefix(BUILT_IN).ok().and_then(|inside| built_in_text(inside.to_str()?));
        text.map_or_else(|| std::fs::read_to_string(path), Ok)
    }
    /// As it is run with a trace: with the one beside it the configuration is that of the trace.
    pub fn with_trace(mut self, is_beside: bool) -> Source {
        if is_beside && self.trace_config.is_some() {
            self.config = self.trace_config.take();
        }
        self
    }
}

/// In front of the names of files that are built in.
const BUILT_IN: &str = "apps";
/// Name of an application's trace, in its directory.
const TRACE: &str = "trace.pcapng";
/// And that of the configuration for it.
const TRACE_CONFIG: &str = "trace.toml";

/// A path without `..`, as text has it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normal.parent().is_some() => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// Finds a program by what the user wrote.
pub fn find(app: &str) -> Result<Source, Failure> {
    let path = Path::new(app);
    if path.is_dir() {
        let stem = path.canonicalize().ok().and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()));
        let own = path.join(format!("{}.baker", stem.unwrap_or_default()));
        // There are directories of such names that are no applications, such as /media.
        if own.exists() || built_in(&format!("{app}/{app}.baker")).is_none() {
            return read(&own);
        }
    }
    if path.is_file() {
        return read(path);
    }
    let embedded = |file: &str| {
        let name = format!("{app}/{file}");
        let text = built_in_text(&name)?;
        Some((format!("{BUILT_IN}/{name}"), text))
    };
    if let Some((name, text)) = embedded(&format!("{app}.baker")) {
        let trace = format!("{app}/{TRACE}");
        let trace = built_in(&trace).map(|content| (format!("{BUILT_IN}/{trace}"), content.into_owned()));
        let (config, trace_config) = (embedded(&format!("{app}.toml")), embedded(TRACE_CONFIG));
        return Ok(Source { name, text, config, built_in: true, trace, trace_config });
    }
    // By name: all files of a folder follow each other.
    let mut known: Vec<String> = Apps::iter().filter_map(|path| Some(path.split_once('/')?.0.to_owned())).collect();
    known.sort();
    known.dedup();
    Err(Failure::wrong(format!(
        "error: {app}: there is no such file, and no such application\n  applications: {}",
        known.join(", ")
    )))
}

fn read(path: &Path) -> Result<Source, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::wrong(format!("error: {}: {error}", path.display())))?;
    let config_path = path.with_extension("toml");
    let shown = |path: &Path| path.display().to_string();
    let config = beside(&config_path, std::fs::read_to_string(&config_path))?.map(|text| (shown(&config_path), text));
    let trace_path = path.with_file_name(TRACE);
    let trace = beside(&trace_path, std::fs::read(&trace_path))?.map(|content| (shown(&trace_path), content));
    let path_of_config = path.with_file_name(TRACE_CONFIG);
    let text_of_config = beside(&path_of_config, std::fs::read_to_string(&path_of_config))?;
    let trace_config = text_of_config.map(|text| (shown(&path_of_config), text));
    Ok(Source { name: shown(path), text, config, built_in: false, trace, trace_config })
}

/// A file that need not be there.
fn beside<T>(path: &Path, content: std::io::Result<T>) -> Result<Option<T>, Failure> {
    match content {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::wrong(format!("error: {}: {error}", path.display()))),
    }
}

/// A file beside a program. What lies beside one that is built in is built in, too.
fn imported(built_in: bool, path: &Path) -> Option<String> {
    match path.strip_prefix(BUILT_IN) {
        Ok(inside) if built_in => built_in_text(inside.to_str()?),
        _ => std::fs::read_to_string(path).ok(),
    }
}

/// Checks a program; its diagnostics become the failure.
pub fn check(source: &Source) -> Result<Compilation, Failure> {
    let compilation =
        baker::check::check(&source.name, &source.text, &Beside(|path: &Path| imported(source.built_in, path)));
    if compilation.diagnostics.is_empty() {
        return Ok(compilation);
    }
    Err(errors(source, &compilation, &compilation.diagnostics))
}

/// The failure that diagnostics become.
fn errors(source: &Source, compilation: &Compilation, diagnostics: &[Diagnostic]) -> Failure {
    let color = std::io::stderr().is_terminal();
    let rendered = diag::render(diagnostics, &compilation.sources, color);
    let count = diagnostics.len();
    let errors = if count == 1 { "1 error".to_string() } else { format!("{count} errors") };
    Failure::wrong(format!("{}\n\n{}: {errors}", rendered.trim_end(), source.name))
}

/// Where the PPFs of a program can run, at the hook that it was lowered for. The failure: what is pinned to the kernel
/// cannot run there.
pub fn place(source: &Source, program: &ir::Program, compilation: &Compilation) -> Result<Placement, Failure> {
    Placement::new(program, &bpf::limits_at(program, Hook::of(program)))
        .map_err(|found| errors(source, compilation, &diag::by_file(found, &compilation.sources)))
}

/// Compiles a program that is to be run.
pub fn compile(source: &Source) -> Result<Arc<ir::Program>, Failure> {
    lower(source, &check(source)?)
}

/// Compiles what was checked.
pub fn lower(source: &Source, compilation: &Compilation) -> Result<Arc<ir::Program>, Failure> {
    lower_for(Hook::default(), source, compilation)
}

/// What a program that is to be run declares ([`ir::declarations`]).
pub fn declarations(source: &Source, compilation: &Compilation) -> Result<ir::Program, Failure> {
    Ok(ir::declarations(runnable(source, compilation)?))
}

/// A program that says where packets go.
fn runnable<'c>(source: &Source, compilation: &'c Compilation) -> Result<&'c hir::Program, Failure> {
    if !compilation.runnable {
        return Err(Failure::wrong(format!(
            "error: {}: there is no `program` block, so nothing says where packets go\n  \
             add one, such as `program {{ rx -> MODULE.INPUT; MODULE.OUTPUT -> tx; }}`",
            source.name
        )));
    }
    Ok(compilation.program.as_ref().expect("a program without errors is complete"))
}

/// Compiles what was checked, for a hook of the kernel.
pub fn lower_for(hook: Hook, source: &Source, compilation: &Compilation) -> Result<Arc<ir::Program>, Failure> {
    let typed = runnable(source, compilation)?;
    let program = match hook {
        Hook::Xdp => ir::lower(typed),
        Hook::Tc => ir::lower_with_operations(typed),
    };
    ir::verify(&program).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(|e| format!("  {e}")).collect();
        Failure::wrong(format!(
            "internal error: {} was compiled wrongly; please report it with the program\n{}",
            source.name,
            errors.join("\n")
        ))
    })?;
    place(source, &program, compilation)?;
    Ok(Arc::new(program))
}
