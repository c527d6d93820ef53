// Starts `millrace lsp` for Baker files.

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
    const command = workspace.getConfiguration("baker").get("millrace");
    const selector = [{ language: "baker", scheme: "file" }, { language: "baker", scheme: "untitled" }];
    client = new LanguageClient("baker", "Baker", { command, args: ["lsp"] }, { documentSelector: selector });
    return client.start();
}

function deactivate() {
    return client?.stop();
}

module.exports = { activate, deactivate };
