//! Items of a file but for modules.

use super::*;

nodes! {
    /// A whole file.
    SourceFile,
    /// `import "path";`
    Import,
    /// `const type NAME = value;`
    Const,
    /// `type NAME = type;`
    Alias,
    /// `enum NAME : type { … }`
    Enum,
    /// `NAME = value` in an enumeration.
    Enumerator,
    /// `struct NAME { … }`
    Struct,
    /// `NAME : type;` in a structure or in the metadata.
    StructField,
    /// `protocol NAME { … }`
    Protocol,
    /// `NAME : width = value covers { … };` in a protocol.
    Field,
    /// `demux { bytes }` in a protocol.
    Demux,
    /// `covers { NAME, … }` of a checksum field.
    Covers,
    /// What a length counts, as a protocol's field declares it.
    Counts,
    /// `length { bytes }` in a protocol.
    Length,
    /// `pseudo { NAME, … }` in a protocol.
    Pseudo,
    /// `metadata { … }`
    Metadata,
    /// `drop_reason NAME, …;`
    Reasons,
    /// `type NAME(…) { … }`
    Function,
    /// `M.P.ppf(…) { … }`
    OutOfBody,
    /// The dotted path of an out-of-body definition, without `.ppf`.
    Path,
    /// `( … )` of a function or PPF.
    ParamList,
    /// `type *NAME`
    Param,
    /// `program { … }`
    Program,
    /// `MODULE NAME, …;` or `MODULE(argument, …) NAME, …;` in the program.
    Instances,
    /// `end -> end;`, or with a clause behind it.
    Wire,
    /// `batch packets within time` of a wire to a controller.
    BatchClause,
    /// `NAME`, `NAME.NAME` or `controller NAME` at one end of a wire.
    WireEnd,
    /// The name of a type.
    TypeRef,
    /// `[length]` behind the type of a field or the name of a variable.
    ArrayLength,
}

choice! {
    /// What stands at the top level of a file.
    Item {
        /// `import`
        Import(Import),
        /// `const`
        Const(Const),
        /// `type`
        Alias(Alias),
        /// `enum`
        Enum(Enum),
        /// `struct`
        Struct(Struct),
        /// `protocol`
        Protocol(Protocol),
        /// `metadata`
        Metadata(Metadata),
        /// `drop_reason`
        Reasons(Reasons),
        /// `module`
        Module(Module),
        /// A function.
        Function(Function),
        /// A PPF's body outside its module.
        OutOfBody(OutOfBody),
        /// `program`
        Program(Program),
    }
}

choice! {
    /// What stands in a protocol.
    ProtocolItem {
        /// A field.
        Field(Field),
        /// The size of the header.
        Demux(Demux),
        /// How far it reaches, with all that it holds.
        Length(Length),
        /// What checksums of the headers behind it cover.
        Pseudo(Pseudo),
    }
}

impl SourceFile {
    /// Its items in order.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<> {
        children(&self.syntax)
    }
}

impl Import {
    /// The path's token, with its quotes.
    pub fn string(&self) -> Option<Name> {
        token(&self.syntax, SyntaxKind::String).map(|token| Name { token })
    }

    /// The path without its quotes.
    pub fn path(&self) -> Option<String> {
        self.string().map(|s| s.text().trim_matches('"').to_owned())
    }
}

impl Const {
    /// Its type.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its value.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl Alias {
    /// The new name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// The type that it stands for.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }
}

impl Enum {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// The type of its values, if written.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// Its enumerators in order.
    pub fn enumerators(&self) -> impl Iterator<Item = Enumerator> + use<> {
        children(&self.syntax)
    }
}

impl Enumerator {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its value, if written.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl Struct {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its fields in order.
    pub fn fields(&self) -> impl Iterator<Item = StructField> + use<> {
        children(&self.syntax)
    }
}

impl StructField {
    /// Its name; any word, reserved or not.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its type; of an array, that of an element.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// How many elements it has, where it is an array.
    pub fn length(&self) -> Option<ArrayLength> {
        child(&self.syntax)
    }
}

impl Protocol {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Fields and clauses in order.
    pub fn items(&self) -> impl Iterator<Item = ProtocolItem> + use<> {
        children(&self.syntax)
    }

    /// Its fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field> + use<> {
        children(&self.syntax)
    }

    /// Its `demux` clauses: one, in a right program.
    pub fn demuxes(&self) -> impl Iterator<Item = Demux> + use<> {
        children(&self.syntax)
    }
}

impl Protocol {
    /// Its `length` clauses: one at most, in a right program.
    pub fn lengths(&self) -> impl Iterator<Item = Length> + use<> {
        children(&self.syntax)
    }

    /// Its `pseudo` clauses.
    pub fn pseudos(&self) -> impl Iterator<Item = Pseudo> + use<> {
        children(&self.syntax)
    }
}

impl Pseudo {
    /// The names listed.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }
}

impl Field {
    /// Its name; any word, reserved or not.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its width in bits, or its type: a name there is an [`Expr::Name`] in either case, for the checker to tell.
    pub fn width(&self) -> Option<Expr> {
        child_before(&self.syntax, SyntaxKind::Eq)
    }

    /// The value after `=`, if written.
    pub fn value(&self) -> Option<Expr> {
        child_after(&self.syntax, SyntaxKind::Eq)
    }

    /// What it covers, if it is a checksum.
    pub fn covers(&self) -> Option<Covers> {
        child(&self.syntax)
    }

    /// What it counts, if it is a declared length.
    pub fn counts(&self) -> Option<Counts> {
        child(&self.syntax)
    }
}

impl Covers {
    /// The names listed.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }
}

impl Counts {
    /// The names listed.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }
}

impl Demux {
    /// The header's size in bytes.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl Length {
    /// Bytes from the header's beginning to the end of what it holds.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl Metadata {
    /// Its fields in order.
    pub fn fields(&self) -> impl Iterator<Item = StructField> + use<> {
        children(&self.syntax)
    }
}

impl Reasons {
    /// The names declared.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }
}

impl Function {
    /// The result's type.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// The `*` after the result's type.
    pub fn star(&self) -> Option<SyntaxToken> {
        token(&self.syntax, SyntaxKind::Star)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its parameters in order.
    pub fn params(&self) -> impl Iterator<Item = Param> + use<> {
        child::<ParamList>(&self.syntax).into_iter().flat_map(|list| list.params())
    }

    /// Its body.
    pub fn body(&self) -> Option<Block> {
        child(&self.syntax)
    }
}

impl OutOfBody {
    /// The result's type, if written.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// The `*` after the result's type.
    pub fn star(&self) -> Option<SyntaxToken> {
        token(&self.syntax, SyntaxKind::Star)
    }

    /// The dotted path, without `.ppf`.
    pub fn path(&self) -> Option<Path> {
        child(&self.syntax)
    }

    /// True when `.ppf` follows the path.
    pub fn has_ppf(&self) -> bool {
        token(&self.syntax, SyntaxKind::PpfKw).is_some()
    }

    /// The packet handle.
    pub fn param(&self) -> Option<Param> {
        child::<ParamList>(&self.syntax)?.params().next()
    }

    /// The body.
    pub fn body(&self) -> Option<Block> {
        child(&self.syntax)
    }
}

impl Path {
    /// Its names in order: the module, the PPF.
    pub fn segments(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }

    /// The module's name.
    pub fn module(&self) -> Option<Name> {
        self.segments().next()
    }

    /// The PPF's name.
    pub fn ppf(&self) -> Option<Name> {
        self.segments().nth(1)
    }
}

impl ParamList {
    /// The parameters in order.
    pub fn params(&self) -> impl Iterator<Item = Param> + use<> {
        children(&self.syntax)
    }
}

impl Param {
    /// Its type.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// The `*` after the type.
    pub fn star(&self) -> Option<SyntaxToken> {
        token(&self.syntax, SyntaxKind::Star)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl Program {
    /// Its declarations of instances in order.
    pub fn instances(&self) -> impl Iterator<Item = Instances> + use<> {
        children(&self.syntax)
    }

    /// Its wires in order.
    pub fn wires(&self) -> impl Iterator<Item = Wire> + use<> {
        children(&self.syntax)
    }
}

impl Instances {
    /// The module.
    pub fn module(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// What stands for the module's parameters; `None` without a list of arguments.
    pub fn args(&self) -> Option<ArgList> {
        child(&self.syntax)
    }

    /// The instances' names.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax).skip(1)
    }
}

impl Wire {
    /// Where packets come from.
    pub fn from(&self) -> Option<WireEnd> {
        child_before(&self.syntax, SyntaxKind::Arrow)
    }

    /// Where packets go.
    pub fn to(&self) -> Option<WireEnd> {
        child_after(&self.syntax, SyntaxKind::Arrow)
    }

    /// How many packets the controller is woken for at a time, if it says so.
    pub fn batch(&self) -> Option<BatchClause> {
        child(&self.syntax)
    }
}

impl BatchClause {
    /// For how many packets.
    pub fn packets(&self) -> Option<Expr> {
        child_before(&self.syntax, SyntaxKind::WithinKw)
    }

    /// How long the first one waits for the others at most.
    pub fn within(&self) -> Option<Expr> {
        child_after(&self.syntax, SyntaxKind::WithinKw)
    }
}

impl WireEnd {
    /// The name of the controller, where it is one.
    pub fn controller(&self) -> Option<Name> {
        let is_one = tokens(&self.syntax).any(|token| token.kind() == SyntaxKind::ControllerKw);
        self.base().filter(|_| is_one)
    }

    /// Its names: one for a built-in end or a controller, a module's and a port's otherwise.
    pub fn segments(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax)
    }

    /// The first name: a module, a built-in end or a controller.
    pub fn base(&self) -> Option<Name> {
        self.segments().next()
    }

    /// The name after the dot.
    pub fn port(&self) -> Option<Name> {
        self.segments().nth(1)
    }
}

impl TypeRef {
    /// The type's name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl ArrayLength {
    /// How many elements there are.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}
