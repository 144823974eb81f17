// Documents as ids: where one ends in a text, and what stands around it in a stream.
//
// The tokenizer alone decides. One that has a BOS token writes it before every document, and before
// a prompt; any other writes its end-of-text token after each document of a stream. So the same
// text has the same ids in a shard, in an evaluation and in a prompt, whatever a model's
// config.json calls its special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace taper {

// What separates documents in a text, unless a command is told otherwise: end-of-text, spelled out.
inline constexpr std::string_view kDocumentSeparator = kEndOfText;

// Calls use(document) for the parts of `text` between separators (all of it when there is none),
// with surrounding white space trimmed; parts that are empty then are left out. An empty separator:
// one document.
template <typename Use>
void for_each_document(std::string_view text, std::string_view separator, Use&& use) {
  while (true) {
    const size_t end = separator.empty() ? std::string_view::npos : text.find(separator);
    if (const auto document = trim_space(text.substr(0, end)); !document.empty()) use(document);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + separator.size());
  }
}

struct Framing {
  TokenId before = -1;  // stands before every document and every prompt; -1: nothing does
  TokenId after = -1;   // stands after every document of a stream; -1: nothing does
};
Framing framing_of(const Tokenizer& tokenizer);
// Whether `id` says that a document is over: end-of-text, or what begins the next one.
bool ends_document(const Tokenizer& tokenizer, TokenId id);

// Ids of a document that stands alone: what begins it, and its text.
std::vector<TokenId> document_ids(const Tokenizer& tokenizer, std::string_view document);

// The ids of a document in a stream, with what stands around it, handed to `append` in parts of
// about a megabyte of text where the tokenizer allows to cut. Throws Interrupted on Ctrl-C.
void append_document(const Tokenizer& tokenizer, std::string_view document,
                     const std::function<void(std::span<const TokenId>)>& append);

// FormatError starting with `what`, naming the first of `ids` that a model with `vocab_size` rows
// does not have: the tokenizer, or the tokens, belong to another model.
void check_ids(std::span<const TokenId> ids, int64_t vocab_size, const std::string& what);

}  // namespace taper
