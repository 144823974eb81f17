#include "text/framing.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/interrupt.h"

namespace taper {
namespace {

constexpr size_t kPart = 1 << 20;  // bytes encoded at once where the tokenizer allows to cut

}  // namespace

Framing framing_of(const Tokenizer& tokenizer) {
  if (tokenizer.bos_id() >= 0) return {.before = tokenizer.bos_id()};
  return {.after = tokenizer.eos_id()};
}

bool ends_document(const Tokenizer& tokenizer, TokenId id) {
  return id == tokenizer.eos_id() || id == framing_of(tokenizer).before;
}

std::vector<TokenId> document_ids(const Tokenizer& tokenizer, std::string_view document) {
  std::vector<TokenId> ids = tokenizer.encode(document);
  const Framing framing = framing_of(tokenizer);
  if (framing.before >= 0) ids.insert(ids.begin(), framing.before);
  return ids;
}

void append_document(const Tokenizer& tokenizer, std::string_view document,
                     const std::function<void(std::span<const TokenId>)>& append) {
  const Framing framing = framing_of(tokenizer);
  const auto append_special = [&](const TokenId& id) {
    if (id >= 0) append(std::span(&id, 1));
  };
  append_special(framing.before);
  while (!document.empty()) {
    throw_if_interrupted();
    const size_t cut = tokenizer.cut_point(document, kPart);
    append(tokenizer.encode(document.substr(0, cut)));
    document.remove_prefix(cut);
  }
  append_special(framing.after);
}

void check_ids(std::span<const TokenId> ids, int64_t vocab_size, const std::string& what) {
  for (const TokenId id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    throw FormatError(fmt::format("{}: token id {} lies beyond the model's vocabulary of {}", what,
                                  id, vocab_size),
                      "the tokens or the tokenizer belong to another model");
  }
}

}  // namespace taper
