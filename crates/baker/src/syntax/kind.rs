//! Kinds of tokens and nodes, and the tree types made of them.

/// The nodes of the tree.
pub type SyntaxNode = rowan::SyntaxNode<Baker>;
/// The tokens of the tree, blanks and comments included.
pub type SyntaxToken = rowan::SyntaxToken<Baker>;
/// A node or a token.
pub type SyntaxElement = rowan::SyntaxElement<Baker>;

/// Baker, as the tree library knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Baker {}

impl rowan::Language for Baker {
    type Kind = SyntaxKind;

    fn kind_from_raw(raw: rowan::SyntaxKind) -> SyntaxKind {
        SyntaxKind::ALL[usize::from(raw.0)]
    }

    fn kind_to_raw(kind: SyntaxKind) -> rowan::SyntaxKind {
        rowan::SyntaxKind(kind as u16)
    }
}

macro_rules! kinds {
    ($($name:ident = $text:literal,)*) => {
        /// Kind of a token or node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum SyntaxKind {
            $(#[doc = $text] $name,)*
        }

        impl SyntaxKind {
            const ALL: &[SyntaxKind] = &[$(SyntaxKind::$name,)*];

            /// How messages name it: "`;`", "a name".
            pub fn describe(self) -> &'static str {
                match self {
                    $(SyntaxKind::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    // Trivia.
    Whitespace = "blanks",
    LineComment = "a comment",
    BlockComment = "a comment",
    Unknown = "characters that begin no token",
    // Tokens with a text of their own.
    Name = "a name",
    Int = "a number",
    Mac = "a MAC address",
    Ipv4 = "an IPv4 address",
    Ipv6 = "an IPv6 address",
    String = "a string",
    // Words reserved everywhere.
    IfKw = "`if`",
    ElseKw = "`else`",
    ForKw = "`for`",
    ReturnKw = "`return`",
    BreakKw = "`break`",
    ContinueKw = "`continue`",
    SwitchKw = "`switch`",
    CaseKw = "`case`",
    DefaultKw = "`default`",
    CriticalKw = "`critical`",
    TrueKw = "`true`",
    FalseKw = "`false`",
    NullKw = "`null`",
    // Words that are keywords only where the grammar names them. The lexer makes a `Name` of them, the parser decides.
    ImportKw = "`import`",
    ConstKw = "`const`",
    TypeKw = "`type`",
    EnumKw = "`enum`",
    StructKw = "`struct`",
    ProtocolKw = "`protocol`",
    DemuxKw = "`demux`",
    CoversKw = "`covers`",
    CountsKw = "`counts`",
    PseudoKw = "`pseudo`",
    LengthKw = "`length`",
    MetadataKw = "`metadata`",
    DropReasonKw = "`drop_reason`",
    ModuleKw = "`module`",
    InKw = "`in`",
    OutKw = "`out`",
    ChannelKw = "`channel`",
    ArrayKw = "`array`",
    HashKw = "`hash`",
    LpmKw = "`lpm`",
    SetKw = "`set`",
    HoldKw = "`hold`",
    GroupKw = "`group`",
    OfKw = "`of`",
    IdleKw = "`idle`",
    IntoKw = "`into`",
    CounterKw = "`counter`",
    MeterKw = "`meter`",
    QueueKw = "`queue`",
    DropKw = "`drop`",
    RateKw = "`rate`",
    BurstKw = "`burst`",
    PpfKw = "`ppf`",
    ExternKw = "`extern`",
    TimerKw = "`timer`",
    OverKw = "`over`",
    EveryKw = "`every`",
    AtKw = "`at`",
    DeadlineKw = "`deadline`",
    FromKw = "`from`",
    TableKw = "`table`",
    ProgramKw = "`program`",
    ControllerKw = "`controller`",
    BatchKw = "`batch`",
    WithinKw = "`within`",
    // Punctuation.
    LParen = "`(`",
    RParen = "`)`",
    LBracket = "`[`",
    RBracket = "`]`",
    LBrace = "`{`",
    RBrace = "`}`",
    Semicolon = "`;`",
    Comma = "`,`",
    Colon = "`:`",
    Dot = "`.`",
    Arrow = "`->`",
    Question = "`?`",
    At = "`@`",
    Eq = "`=`",
    PlusEq = "`+=`",
    MinusEq = "`-=`",
    StarEq = "`*=`",
    SlashEq = "`/=`",
    PercentEq = "`%=`",
    AmpEq = "`&=`",
    PipeEq = "`|=`",
    CaretEq = "`^=`",
    ShlEq = "`<<=`",
    ShrEq = "`>>=`",
    PlusPlus = "`++`",
    MinusMinus = "`--`",
    OrOr = "`||`",
    AndAnd = "`&&`",
    Pipe = "`|`",
    Caret = "`^`",
    Amp = "`&`",
    EqEq = "`==`",
    NotEq = "`!=`",
    Lt = "`<`",
    LtEq = "`<=`",
    Gt = "`>`",
    GtEq = "`>=`",
    Shl = "`<<`",
    Shr = "`>>`",
    Plus = "`+`",
    Minus = "`-`",
    Star = "`*`",
    Slash = "`/`",
    Percent = "`%`",
    Bang = "`!`",
    Tilde = "`~`",
    // Never in the tree: what the parser sees behind the last token.
    Eof = "the end of the file",
    // Nodes.
    SourceFile = "a file",
    Error = "tokens that the parser skipped",
    Import = "an import",
    Const = "a constant",
    Alias = "a type alias",
    Enum = "an enumeration",
    Enumerator = "an enumerator",
    Struct = "a structure",
    StructField = "a field of a structure or of the metadata",
    Protocol = "a protocol",
    Field = "a field of a protocol",
    Covers = "the list of what a checksum covers",
    Counts = "the list of what a length counts",
    Demux = "a `demux` clause",
    Pseudo = "a `pseudo` clause",
    Length = "a `length` clause",
    Metadata = "a metadata declaration",
    Reasons = "a declaration of drop reasons",
    Module = "a module",
    ModuleParams = "the parameters of a module",
    ModuleParam = "a parameter of a module",
    Port = "a port or channel",
    Table = "a table",
    OfClause = "an `of` clause",
    Idle = "an `idle` clause",
    IntoClause = "an `into` clause",
    Counter = "a counter",
    Meter = "a meter",
    Queue = "a queue",
    DropClause = "a `drop` clause",
    Rate = "a `rate` clause",
    Burst = "a `burst` clause",
    Ppf = "a PPF",
    Pin = "a pin",
    FromClause = "a `from` clause",
    Extern = "an `extern` function",
    Timer = "a timer",
    OverClause = "an `over` clause",
    EveryClause = "an `every` clause",
    DeadlineClause = "an `at deadline` clause",
    Function = "a function",
    OutOfBody = "an out-of-body definition",
    Path = "a dotted path",
    ParamList = "a parameter list",
    Param = "a parameter",
    Program = "the program's wiring",
    Instances = "a declaration of instances",
    Wire = "a wire",
    BatchClause = "a `batch` clause",
    WireEnd = "an end of a wire",
    TypeRef = "a type",
    ArrayLength = "the length of an array",
    Block = "a block",
    EmptyStmt = "an empty statement",
    LetStmt = "a declaration of a variable",
    AssignStmt = "an assignment",
    IncDecStmt = "an increment or decrement",
    ExprStmt = "an expression statement",
    ReturnStmt = "a `return`",
    BreakStmt = "a `break`",
    ContinueStmt = "a `continue`",
    IfStmt = "an `if`",
    SwitchStmt = "a `switch`",
    SwitchArm = "an arm of a `switch`",
    CaseLabel = "a label of a `switch`",
    ForStmt = "a `for`",
    CriticalStmt = "a critical section",
    ForInit = "the first part of a `for` header",
    ForCondition = "the second part of a `for` header",
    ForStep = "the third part of a `for` header",
    Literal = "a literal",
    NameExpr = "a name in an expression",
    ParenExpr = "an expression in parentheses",
    UnaryExpr = "a prefix operator with its operand",
    BinaryExpr = "a binary operator with its operands",
    TernaryExpr = "a conditional expression",
    CastExpr = "a cast",
    MemberExpr = "a field access",
    IndexExpr = "an indexed access",
    CallExpr = "a call",
    ArgList = "an argument list",
    StructValue = "a structure value",
    StructValueField = "a field of a structure value",
}

impl SyntaxKind {
    /// True for what stands between tokens without meaning: blanks, comments, characters that begin no token.
    pub fn is_trivia(self) -> bool {
        matches!(self, Self::Whitespace | Self::LineComment | Self::BlockComment | Self::Unknown)
    }

    /// True for the words that are reserved everywhere.
    pub fn is_reserved_word(self) -> bool {
        (Self::IfKw as u16..=Self::NullKw as u16).contains(&(self as u16))
    }

    /// True for the words that stand within items: no item begins with one.
    pub(super) fn is_within_items(self) -> bool {
        matches!(
            self,
            Self::DemuxKw
                | Self::CoversKw
                | Self::CountsKw
                | Self::PseudoKw
                | Self::LengthKw
                | Self::FromKw
                | Self::OfKw
                | Self::IdleKw
                | Self::IntoKw
                | Self::RateKw
                | Self::BurstKw
                | Self::OverKw
                | Self::DropKw
                | Self::EveryKw
                | Self::TableKw
                | Self::AtKw
                | Self::DeadlineKw
                | Self::ControllerKw
                | Self::BatchKw
                | Self::WithinKw
        )
    }

    /// The kind of a word that is reserved everywhere.
    pub(super) fn reserved_word(text: &str) -> Option<SyntaxKind> {
        Some(match text {
            "if" => Self::IfKw,
            "else" => Self::ElseKw,
            "for" => Self::ForKw,
            "return" => Self::ReturnKw,
            "break" => Self::BreakKw,
            "continue" => Self::ContinueKw,
            "switch" => Self::SwitchKw,
            "case" => Self::CaseKw,
            "default" => Self::DefaultKw,
            "critical" => Self::CriticalKw,
            "true" => Self::TrueKw,
            "false" => Self::FalseKw,
            "null" => Self::NullKw,
            _ => return None,
        })
    }

    /// The kind of a word that is a keyword where the grammar names it.
    pub(super) fn contextual_keyword(text: &str) -> Option<SyntaxKind> {
        Some(match text {
            "import" => Self::ImportKw,
            "const" => Self::ConstKw,
            "type" => Self::TypeKw,
            "enum" => Self::EnumKw,
            "struct" => Self::StructKw,
            "protocol" => Self::ProtocolKw,
            "demux" => Self::DemuxKw,
            "covers" => Self::CoversKw,
            "counts" => Self::CountsKw,
            "pseudo" => Self::PseudoKw,
            "length" => Self::LengthKw,
            "metadata" => Self::MetadataKw,
            "drop_reason" => Self::DropReasonKw,
            "module" => Self::ModuleKw,
            "in" => Self::InKw,
            "out" => Self::OutKw,
            "channel" => Self::ChannelKw,
            "array" => Self::ArrayKw,
            "hash" => Self::HashKw,
            "lpm" => Self::LpmKw,
            "set" => Self::SetKw,
            "hold" => Self::HoldKw,
            "group" => Self::GroupKw,
            "of" => Self::OfKw,
            "idle" => Self::IdleKw,
            "into" => Self::IntoKw,
            "counter" => Self::CounterKw,
            "meter" => Self::MeterKw,
            "queue" => Self::QueueKw,
            "drop" => Self::DropKw,
            "rate" => Self::RateKw,
            "burst" => Self::BurstKw,
            "ppf" => Self::PpfKw,
            "extern" => Self::ExternKw,
            "timer" => Self::TimerKw,
            "over" => Self::OverKw,
            "every" => Self::EveryKw,
            "at" => Self::AtKw,
            "deadline" => Self::DeadlineKw,
            "from" => Self::FromKw,
            "table" => Self::TableKw,
            "program" => Self::ProgramKw,
            "controller" => Self::ControllerKw,
            "batch" => Self::BatchKw,
            "within" => Self::WithinKw,
            _ => return None,
        })
    }
}
