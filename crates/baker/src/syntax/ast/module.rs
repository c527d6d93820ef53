//! Modules and what stands in them.

use super::*;

nodes! {
    /// `module NAME { … }`, or with parameters behind the name.
    Module,
    /// `(param, …)` of a module.
    ModuleParams,
    /// `protocol NAME`, `type NAME`, `const type NAME` or `table NAME`.
    ModuleParam,
    /// `in protocol NAME, …;`, also with `out` or `channel`.
    Port,
    /// `array<value> NAME[size];`, `hash<key, value> NAME[size];`, `lpm<key, value> NAME[size];`,
    /// `set<key> NAME[size];`, `hold<protocol> NAME[size] of packets;`, `group<value> NAME[groups] of members;`,
    /// or a single group without its number
    Table,
    /// `idle duration` behind a table.
    Idle,
    /// `into NAME` behind a table.
    IntoClause,
    /// `counter NAME;` or `counter NAME[size];`
    Counter,
    /// `meter NAME rate tokens burst tokens;`, also with `[size]` behind the name, and without rate and burst.
    Meter,
    /// `queue NAME[size] of packets drop oldest;`, or without the size or the last clause.
    Queue,
    /// `of packets` of a hold table or a queue, `of members` of groups.
    OfClause,
    /// `drop NAME`
    DropClause,
    /// `rate tokens` of a meter.
    Rate,
    /// `burst tokens` of a meter.
    Burst,
    /// `ppf NAME(param) from NAME { … }`, or with `;` when the body stands elsewhere; a pin may stand in front.
    Ppf,
    /// `@NAME`
    Pin,
    /// `from NAME`
    FromClause,
    /// `extern type NAME(param, …);`
    Extern,
    /// `timer NAME(param, …) over NAME every duration { … }`, or without `over NAME`; or with `at deadline` in place
    /// of the duration.
    Timer,
    /// `over NAME`
    OverClause,
    /// `every duration`
    EveryClause,
    /// `at deadline`
    DeadlineClause,
}

choice! {
    /// What stands in a module.
    ModuleItem {
        /// Ports or internal channels.
        Port(Port),
        /// A table.
        Table(Table),
        /// A counter.
        Counter(Counter),
        /// A meter.
        Meter(Meter),
        /// A queue.
        Queue(Queue),
        /// A packet processing function.
        Ppf(Ppf),
        /// A function that a controller has.
        Extern(Extern),
        /// A timer.
        Timer(Timer),
        /// `const`
        Const(Const),
        /// `type`
        Alias(Alias),
        /// `enum`
        Enum(Enum),
        /// `struct`
        Struct(Struct),
        /// `drop_reason`
        Reasons(Reasons),
        /// A function.
        Function(Function),
    }
}

/// Which way packets cross a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// Into the module.
    In,
    /// Out of the module.
    Out,
    /// From PPF to PPF within the module.
    Channel,
}

/// What stands for a parameter of a module in an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleParamKind {
    /// A protocol.
    Protocol,
    /// A type of values.
    Type,
    /// A constant.
    Const,
    /// A table of another module.
    Table,
}

impl Module {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its parameters in order.
    pub fn params(&self) -> impl Iterator<Item = ModuleParam> + use<> {
        child::<ModuleParams>(&self.syntax).into_iter().flat_map(|list| children(&list.syntax))
    }

    /// Whether it has a list of parameters.
    pub fn has_params(&self) -> bool {
        child::<ModuleParams>(&self.syntax).is_some()
    }

    /// What stands in it, in order.
    pub fn items(&self) -> impl Iterator<Item = ModuleItem> + use<> {
        children(&self.syntax)
    }
}

impl ModuleParam {
    /// What stands for it.
    pub fn kind(&self) -> Option<ModuleParamKind> {
        tokens(&self.syntax).find_map(|t| match t.kind() {
            SyntaxKind::ProtocolKw => Some(ModuleParamKind::Protocol),
            SyntaxKind::TypeKw => Some(ModuleParamKind::Type),
            SyntaxKind::ConstKw => Some(ModuleParamKind::Const),
            SyntaxKind::TableKw => Some(ModuleParamKind::Table),
            _ => None,
        })
    }

    /// The type of a constant.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl Port {
    /// Which way packets cross it.
    pub fn kind(&self) -> Option<PortKind> {
        tokens(&self.syntax).find_map(|t| match t.kind() {
            SyntaxKind::InKw => Some(PortKind::In),
            SyntaxKind::OutKw => Some(PortKind::Out),
            SyntaxKind::ChannelKw => Some(PortKind::Channel),
            _ => None,
        })
    }

    /// The protocol of the packets.
    pub fn protocol(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// The ports' names.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        names(&self.syntax).skip(1)
    }
}

impl Table {
    /// The word that says its kind.
    pub fn kind(&self) -> Option<SyntaxToken> {
        tokens(&self.syntax).next()
    }

    /// The one or two types between `<` and `>`.
    pub fn types(&self) -> impl Iterator<Item = TypeRef> + use<> {
        children(&self.syntax)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// How many entries it can hold.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// How many packets a hold table, or members groups have at most.
    pub fn most(&self) -> Option<Expr> {
        child(child::<OfClause>(&self.syntax)?.syntax())
    }

    /// After how many nanoseconds an entry that is not used is gone, if ever.
    pub fn idle(&self) -> Option<Expr> {
        child(child::<Idle>(&self.syntax)?.syntax())
    }

    /// Of a table of meters: tokens that come per second into one that begins, if written.
    pub fn rate(&self) -> Option<Expr> {
        child(child::<Rate>(&self.syntax)?.syntax())
    }

    /// Of a table of meters: tokens that one has at most, if written.
    pub fn burst(&self) -> Option<Expr> {
        child(child::<Burst>(&self.syntax)?.syntax())
    }

    /// The table whose keys its values are, if it says so.
    pub fn led_into(&self) -> Option<Name> {
        name(child::<IntoClause>(&self.syntax)?.syntax())
    }
}

impl Counter {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// How many counters it is, if more than one.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl Meter {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// How many meters it is, if more than one.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// Tokens that come per second, if written.
    pub fn rate(&self) -> Option<Expr> {
        child(child::<Rate>(&self.syntax)?.syntax())
    }

    /// Tokens that there are at most, if written.
    pub fn burst(&self) -> Option<Expr> {
        child(child::<Burst>(&self.syntax)?.syntax())
    }
}

impl Queue {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// How many queues it is, if more than one.
    pub fn size(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// Packets that each of them holds at most.
    pub fn depth(&self) -> Option<Expr> {
        child(child::<OfClause>(&self.syntax)?.syntax())
    }

    /// Which packets are dropped where it is full, if written.
    pub fn drops(&self) -> Option<Name> {
        name(child::<DropClause>(&self.syntax)?.syntax())
    }

    /// The metadata by which that is decided, if written.
    pub fn drops_by(&self) -> Option<Name> {
        names(child::<DropClause>(&self.syntax)?.syntax()).nth(1)
    }
}

impl Ppf {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Where it has to run.
    pub fn pins(&self) -> impl Iterator<Item = Pin> + use<> {
        children(&self.syntax)
    }

    /// The packet handle.
    pub fn param(&self) -> Option<Param> {
        child::<ParamList>(&self.syntax)?.params().next()
    }

    /// The port or channel whose packets it processes.
    pub fn from(&self) -> Option<Name> {
        child::<FromClause>(&self.syntax)?.port()
    }

    /// Its body, unless that stands outside the module.
    pub fn body(&self) -> Option<Block> {
        child(&self.syntax)
    }
}

impl Pin {
    /// `kernel` or `worker`.
    pub fn target(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl FromClause {
    /// The port or channel named.
    pub fn port(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl Extern {
    /// What it returns.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its parameters.
    pub fn params(&self) -> impl Iterator<Item = Param> + use<> {
        child::<ParamList>(&self.syntax).into_iter().flat_map(|list| list.params())
    }
}

impl Timer {
    /// Its name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// The key and the entry, of a timer over a table.
    pub fn params(&self) -> impl Iterator<Item = Param> + use<> {
        child::<ParamList>(&self.syntax).into_iter().flat_map(|list| list.params())
    }

    /// The table that it goes over.
    pub fn table(&self) -> Option<Name> {
        name(child::<OverClause>(&self.syntax)?.syntax())
    }

    /// Whether it runs at the deadlines of the table's entries.
    pub fn is_at_deadline(&self) -> bool {
        child::<DeadlineClause>(&self.syntax).is_some()
    }

    /// Nanoseconds from one start to the next.
    pub fn period(&self) -> Option<Expr> {
        child(child::<EveryClause>(&self.syntax)?.syntax())
    }

    /// Its body.
    pub fn body(&self) -> Option<Block> {
        child(&self.syntax)
    }
}
