//! Conversion of StableHLO modules with Shardy shardings, as printed by JAX, to programs.
//!
//! ```text
//! text ─► trees ─► module ─► translate (dims, value, operation, index, repeat, opaque) ─► output ─► text
//! ```
//!
//! Shapes become named dims, calls are inlined, counted loops become `repeat`, and
//! elementwise chains become one statement. Unsupported operations are rejected with their location, or
//! declared as kernels.

mod dims;
mod index;
mod kernels;
mod module;
mod names;
mod opaque;
mod operation;
mod output;
mod repeat;
mod rules;
mod translate;
mod trees;
mod value;
mod write;

use crate::diag::Diagnostics;
use crate::span::Span;

/// Largest text of a module that is read, in bytes.
const MOST_BYTES: usize = 1 << 26;

/// Why a module is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
enum ImportError {
    #[error("the module has {bytes} bytes, more than the {most} that are read")]
    #[diagnostic(code("import-too-large"), help("print it without the elements of large constants"))]
    TooLong { bytes: usize, most: usize },
    #[error("the module cannot be read: {why}")]
    #[diagnostic(
        code("import-unreadable"),
        help("expected StableHLO text, as printed by `jax.jit(f).lower(..).as_text()`")
    )]
    Unreadable {
        why: String,
        #[label(primary, "here")]
        at: Span,
    },
    #[error("`{name}` cannot be imported: {why}")]
    #[diagnostic(code("import-unsupported"))]
    Operation {
        name: String,
        why: String,
        #[label(primary, "this operation")]
        at: Span,
        #[help]
        way_out: Option<String>,
    },
    #[error("elements of type `{name}` cannot be imported")]
    #[diagnostic(code("import-unsupported"))]
    Dtype {
        name: String,
        #[label(primary, "used here")]
        at: Span,
        #[help]
        way_out: String,
    },
    #[error("this sharding cannot be imported: {why}")]
    #[diagnostic(code("import-unsupported"))]
    Sharding {
        why: &'static str,
        #[label(primary, "this sharding")]
        at: Span,
    },
    #[error("the module has no mesh")]
    #[diagnostic(code("import-no-mesh"), help("give one: `--mesh 'data: 4, model: 2'`"))]
    NoMesh,
    #[error("the module has more than {most} operations with all calls written out")]
    #[diagnostic(code("import-too-large"), help("use `jax.lax.scan` for layers that are alike"))]
    TooLarge {
        most: usize,
        #[label(primary, "operation limit exceeded here")]
        at: Span,
    },
}

impl ImportError {
    /// The refusal of this operation with what `--opaque` does about it; other errors as they are.
    fn with_kernels(self, why: Result<(), rules::Why>) -> ImportError {
        let advice = match why {
            Ok(()) => "`shardc import --opaque` declares it as a kernel, known by its dims and costs".to_owned(),
            Err(None) => return self,
            Err(Some(why)) => format!("`shardc import --opaque` declares no kernel for it: {why}"),
        };
        match self {
            ImportError::Operation { name, why, at, way_out: _ } => {
                ImportError::Operation { name, why, at, way_out: Some(advice) }
            }
            ImportError::Dtype { name, at, way_out } => {
                ImportError::Dtype { name, at, way_out: format!("{way_out}; {advice}") }
            }
            other => other,
        }
    }

    /// Whether an operation at this place is refused.
    fn refuses(&self, place: Span) -> bool {
        matches!(self, ImportError::Operation { at, .. } | ImportError::Dtype { at, .. } if *at == place)
    }
}

/// What is not in the module.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `{data: 4, model: 2}`, instead of the mesh of the module.
    pub mesh: Option<String>,
    /// The hardware profile that the program names.
    pub hardware: Option<String>,
    /// Layouts of arguments without a sharding are left to the plan; else they are replicated.
    pub is_open: bool,
    /// Operations that the language cannot say are declared as kernels; else they are refused.
    pub is_opaque: bool,
}

/// A program, and what it calls the arguments and results of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The program.
    pub text: String,
    /// In the order of the function's arguments.
    pub arguments: Vec<Argument>,
    /// The outputs, in the order of the function's results.
    pub results: Vec<String>,
}

/// An argument of the function as inputs of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The name of the input.
    pub array: String,
    /// Whether each iteration of a `repeat` has an input of its own, which is one row of the argument.
    pub is_per_iteration: bool,
}

/// Makes a program of a StableHLO module.
///
/// # Errors
/// If the text is not a module, or says something that the language cannot; the places are those of `text`.
pub fn program(text: &str, options: &Options) -> Result<Imported, Diagnostics> {
    translated(text, options).map_err(|error| Diagnostics::of(&error))
}

fn translated(text: &str, options: &Options) -> Result<Imported, ImportError> {
    if text.len() > MOST_BYTES {
        return Err(ImportError::TooLong { bytes: text.len(), most: MOST_BYTES });
    }
    let module = module::read(text)?;
    let (output, dims) = translate::translate(&module, options.is_opaque)?;
    if output.mesh.is_empty() && options.mesh.is_none() {
        return Err(ImportError::NoMesh);
    }
    Ok(write::write(output, dims, options))
}
