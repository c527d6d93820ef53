//! The loop that answers the editor.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use baker::format;
use baker::source::{FileId, Span};
use lsp_server::{Connection, ErrorCode, ExtractError, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Notification as _,
    PublishDiagnostics,
};
use lsp_types::request::{
    Completion, DocumentSymbolRequest, Formatting, GotoDefinition, HoverRequest, Request as _,
    SemanticTokensFullRequest,
};
use lsp_types::*;

use crate::diagnostics::{diagnostics, location};
use crate::documents::{Documents, name};
use crate::model::Model;
use crate::position::LineIndex;
use crate::target::Target;
use crate::{Error, symbols, tokens};

/// What the server can do.
pub fn capabilities() -> ServerCapabilities {
    let legend = SemanticTokensLegend { token_types: tokens::LEGEND.to_vec(), token_modifiers: Vec::new() };
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::FULL),
        save: Some(TextDocumentSyncSaveOptions::Supported(true)),
        ..TextDocumentSyncOptions::default()
    };
    ServerCapabilities {
        position_encoding: Some(PositionEncodingKind::UTF16),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some([">", ".", "\""].map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend,
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        ..ServerCapabilities::default()
    }
}

/// The state of a session.
#[derive(Default)]
pub struct Server {
    documents: Documents,
    /// What is known of each document, by its name, until any document changes.
    models: HashMap<String, Rc<Model>>,
    /// Documents with diagnostics to be worked out.
    stale: BTreeSet<Uri>,
}

impl Server {
    /// Answers until the editor ends the session. Diagnostics are worked out when nothing else is to be done, so fast
    /// typing does not pile up work.
    pub fn run(&mut self, connection: &Connection) -> Result<(), Error> {
        loop {
            let message = match connection.receiver.try_recv() {
                Ok(message) => message,
                Err(_) => match self.stale.pop_first() {
                    Some(uri) => {
                        self.publish(connection, uri)?;
                        continue;
                    }
                    // The editor is gone without having said so.
                    None => match connection.receiver.recv() {
                        Ok(message) => message,
                        Err(_) => return Ok(()),
                    },
                },
            };
            match message {
                Message::Request(request) => {
                    if connection.handle_shutdown(&request)? {
                        return Ok(());
                    }
                    let response = self.answer(request);
                    send(connection, Message::Response(response))?;
                }
                Message::Notification(notification) => self.note(connection, notification)?,
                Message::Response(_) => {}
            }
        }
    }

    fn answer(&mut self, request: Request) -> Response {
        let id = request.id.clone();
        match request.method.as_str() {
            HoverRequest::METHOD => self.reply::<HoverRequest>(request, Self::hover),
            GotoDefinition::METHOD => self.reply::<GotoDefinition>(request, Self::definition),
            Completion::METHOD => self.reply::<Completion>(request, Self::completion),
            Formatting::METHOD => self.reply::<Formatting>(request, Self::formatting),
            DocumentSymbolRequest::METHOD => self.reply::<DocumentSymbolRequest>(request, Self::symbols),
            SemanticTokensFullRequest::METHOD => self.reply::<SemanticTokensFullRequest>(request, Self::tokens),
            method => {
                Response::new_err(id, ErrorCode::MethodNotFound as i32, format!("there is no method `{method}` here"))
            }
        }
    }

    fn reply<R: lsp_types::request::Request>(
        &mut self,
        request: Request,
        answer: impl FnOnce(&mut Self, R::Params) -> R::Result,
    ) -> Response
    where
        R::Params: serde::de::DeserializeOwned,
        R::Result: serde::Serialize,
    {
        let fallback = request.id.clone();
        match request.extract::<R::Params>(R::METHOD) {
            Ok((id, params)) => Response::new_ok(id, answer(self, params)),
            Err(error) => invalid(fallback, error),
        }
    }

    fn note(&mut self, connection: &Connection, notification: Notification) -> Result<(), Error> {
        match notification.method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Some(params) = params::<DidOpenTextDocument>(notification) {
                    self.documents.set(params.text_document.uri, params.text_document.text);
                    self.changed();
                }
            }
            DidChangeTextDocument::METHOD => {
                // Whole texts only, as agreed: the last one counts.
                if let Some(mut params) = params::<DidChangeTextDocument>(notification)
                    && let Some(change) = params.content_changes.pop()
                {
                    self.documents.set(params.text_document.uri, change.text);
                    self.changed();
                }
            }
            // Files that are not open may be others now, too.
            DidSaveTextDocument::METHOD => self.changed(),
            DidCloseTextDocument::METHOD => {
                if let Some(params) = params::<DidCloseTextDocument>(notification) {
                    let uri = params.text_document.uri;
                    self.documents.close(&uri);
                    self.changed();
                    publish(connection, uri, Vec::new())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What was known is no longer true: of other documents neither, as they may import the one that changed.
    fn changed(&mut self) {
        self.models.clear();
        self.stale = self.documents.uris().into_iter().collect();
    }

    fn publish(&self, connection: &Connection, uri: Uri) -> Result<(), Error> {
        let name = name(&uri);
        let Some(text) = self.documents.text(&name) else { return Ok(()) };
        publish(connection, uri, diagnostics(&name, text, &self.documents))
    }

    /// What is known of an open document.
    fn model(&mut self, uri: &Uri) -> Option<Rc<Model>> {
        let name = name(uri);
        if let Some(model) = self.models.get(&name) {
            return Some(model.clone());
        }
        let model = Rc::new(Model::new(&name, self.documents.text(&name)?, &self.documents));
        self.models.insert(name, model.clone());
        Some(model)
    }

    /// The model of a document and the token at a place in it that can be asked about.
    fn at(&mut self, place: &TextDocumentPositionParams) -> Option<(Rc<Model>, baker::syntax::SyntaxToken)> {
        let model = self.model(&place.text_document.uri)?;
        let text = &model.sources.file(FileId(0)).text;
        let offset = u32::try_from(LineIndex::new(text).offset(place.position)).ok()?;
        let root = rowan_root(&model);
        let tokens = root.token_at_offset(offset.min(root.text_range().end().into()).into());
        // Between two tokens: the name, whichever side it is on.
        let rank = |t: &baker::syntax::SyntaxToken| !t.kind().is_trivia() as u8 + crate::target::is_name(t) as u8;
        let token = tokens.max_by_key(rank)?;
        Some((model, token))
    }

    fn hover(&mut self, params: HoverParams) -> Option<Hover> {
        let (model, token) = self.at(&params.text_document_position_params)?;
        let value = model.hover(&token)?;
        let index = LineIndex::new(&model.sources.file(FileId(0)).text);
        let range = index.range(token.text_range().start().into(), token.text_range().end().into());
        let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
        Some(Hover { contents, range: Some(range) })
    }

    fn definition(&mut self, params: GotoDefinitionParams) -> Option<GotoDefinitionResponse> {
        let (model, token) = self.at(&params.text_document_position_params)?;
        let target = model.target(&token)?;
        let (file, range) = match &target {
            Target::Local(local) => (FileId(0), local.name.syntax().text_range()),
            Target::File(name) => {
                let (file, _) = model.sources.iter().find(|(_, file)| file.name == *name)?;
                (file, rowan::TextRange::default())
            }
            other => other.declaration()?,
        };
        let span = Span::new(file, range.start().into(), range.end().into());
        Some(GotoDefinitionResponse::Scalar(location(&model.sources, span, &self.documents)?))
    }

    fn completion(&mut self, params: CompletionParams) -> Option<CompletionResponse> {
        let place = params.text_document_position;
        let model = self.model(&place.text_document.uri)?;
        let offset = LineIndex::new(&model.sources.file(FileId(0)).text).offset(place.position);
        Some(CompletionResponse::Array(model.completion(offset)))
    }

    /// No change where the text has mistakes: they are shown as diagnostics.
    fn formatting(&mut self, params: DocumentFormattingParams) -> Option<Vec<TextEdit>> {
        let text = self.documents.text(&name(&params.text_document.uri))?;
        let formatted = format::format(FileId(0), text).ok()?;
        if formatted == text {
            return Some(Vec::new());
        }
        Some(vec![TextEdit::new(LineIndex::new(text).range(0, text.len()), formatted)])
    }

    fn symbols(&mut self, params: DocumentSymbolParams) -> Option<DocumentSymbolResponse> {
        let model = self.model(&params.text_document.uri)?;
        let index = LineIndex::new(&model.sources.file(FileId(0)).text);
        Some(DocumentSymbolResponse::Nested(symbols::symbols(model.tree(), &index)))
    }

    fn tokens(&mut self, params: SemanticTokensParams) -> Option<SemanticTokensResult> {
        let model = self.model(&params.text_document.uri)?;
        let index = LineIndex::new(&model.sources.file(FileId(0)).text);
        let data = tokens::tokens(&model, &index);
        Some(SemanticTokensResult::Tokens(SemanticTokens { result_id: None, data }))
    }
}

fn rowan_root(model: &Model) -> baker::syntax::SyntaxNode {
    use baker::syntax::ast::AstNode;
    model.tree().syntax().clone()
}

/// The parameters of a notification; one with wrong ones is ignored, as there is no one to tell.
fn params<N: lsp_types::notification::Notification>(notification: Notification) -> Option<N::Params> {
    notification.extract(N::METHOD).ok()
}

fn invalid(id: RequestId, error: ExtractError<Request>) -> Response {
    Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string())
}

fn publish(connection: &Connection, uri: Uri, diagnostics: Vec<Diagnostic>) -> Result<(), Error> {
    let params = PublishDiagnosticsParams { uri, diagnostics, version: None };
    send(connection, Message::Notification(Notification::new(PublishDiagnostics::METHOD.to_string(), params)))
}

fn send(connection: &Connection, message: Message) -> Result<(), Error> {
    connection.sender.send(message).map_err(|_| Error("the editor takes no more answers".to_string()))
}
