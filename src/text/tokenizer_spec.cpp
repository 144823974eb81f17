#include "text/tokenizer_spec.h"

#include <fmt/format.h>

#include <unordered_set>

#include "core/error.h"
#include "text/byte_alphabet.h"

namespace taper {
namespace {

std::string shown(const TokenizerSpec& spec, TokenId id) {
  return fmt::format("{} (\"{}\")", id, spec.vocab[id]);
}

Json added_tokens_json(const TokenizerSpec& spec) {
  Json list = Json::array();
  for (const AddedToken& token : spec.added)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  return list;
}

Json byte_level_json(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

// Steps as pre-tokenizers. ByteLevel takes a trailing [prefix space] [pattern]; an earlier pattern
// is a Split of its own.
Json pre_tokenizer_json(const TokenizerSpec& spec) {
  std::vector<SplitStep> steps = spec.steps;
  const auto take_last = [&](SplitStep step) {
    if (steps.empty() || steps.back() != step) return false;
    steps.pop_back();
    return true;
  };
  const bool use_regex = take_last(SplitStep::kGpt2);
  const bool add_prefix_space = take_last(SplitStep::kPrefixSpace);
  const Json last = byte_level_json(add_prefix_space, use_regex);
  if (steps.empty()) return last;
  Json list = Json::array();
  for (const SplitStep step : steps) {
    TAPER_CHECK(step != SplitStep::kPrefixSpace);
    if (step == SplitStep::kGpt2)
      list.push_back({{"type", "Split"},
                      {"pattern", {{"Regex", kGpt2Pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}});
    else
      list.push_back({{"type", "Digits"}, {"individual_digits", step == SplitStep::kDigits}});
  }
  list.push_back(last);
  return {{"type", "Sequence"}, {"pretokenizers", list}};
}

Json model_json(const TokenizerSpec& spec) {
  const bool fallback = spec.kind == TokenizerKind::kSentencePiece;
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", fallback},
                {"byte_fallback", fallback},
                {"ignore_merges", spec.ignore_merges}};
  if (spec.unk >= 0) model["unk_token"] = spec.vocab[spec.unk];
  // Entries are distinct, so the linear search of ordered insertion can be passed over.
  Json vocab = Json::object();
  auto& members = vocab.get_ref<Json::object_t&>();
  for (size_t id = 0; id < spec.vocab.size(); ++id) members.push_back({spec.vocab[id], id});
  model["vocab"] = std::move(vocab);

  bool any_space = false;  // then "left right" would be ambiguous
  for (const BpeMerge& merge : spec.merges)
    any_space = any_space || spec.vocab[merge.result].find(' ') != std::string::npos;
  Json merges = Json::array();
  for (const BpeMerge& merge : spec.merges) {
    const std::string &left = spec.vocab[merge.left], &right = spec.vocab[merge.right];
    if (any_space)
      merges.push_back(Json::array({left, right}));
    else
      merges.push_back(fmt::format("{} {}", left, right));
  }
  model["merges"] = std::move(merges);
  return model;
}

Json post_processor_json(const TokenizerSpec& spec) {
  if (spec.bos < 0) return nullptr;
  const std::string& bos = spec.vocab[spec.bos];
  const auto special = [&](int type) {
    return Json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  Json token = {{"id", bos}, {"ids", Json::array({spec.bos})}, {"tokens", Json::array({bos})}};
  Json tokens = Json::object();
  tokens[bos] = std::move(token);
  return {{"type", "TemplateProcessing"},
          {"single", {special(0), sequence("A", 0)}},
          {"pair", {special(0), sequence("A", 0), special(1), sequence("B", 1)}},
          {"special_tokens", tokens}};
}

}  // namespace

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2))
    if (c >= '0' && c <= '9')
      byte = byte * 16 + (c - '0');
    else if (c >= 'A' && c <= 'F')
      byte = byte * 16 + (c - 'A' + 10);
    else
      return -1;
  return byte;
}

void check_tokenizer_spec(const TokenizerSpec& spec, const std::string& what) {
  const auto size = static_cast<TokenId>(spec.vocab.size());
  std::unordered_set<std::string_view> entries;
  for (TokenId id = 0; id < size; ++id)
    if (!entries.insert(spec.vocab[id]).second)
      throw FormatError(fmt::format("{}: entry {} appears twice", what, shown(spec, id)));
  std::vector<bool> special(spec.vocab.size());
  for (const AddedToken& token : spec.added) {
    TAPER_CHECK(token.id >= 0 && token.id < size);
    special[token.id] = token.special;
  }
  std::unordered_set<uint64_t> pairs;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const BpeMerge& merge = spec.merges[rank];
    for (const TokenId id : {merge.left, merge.right, merge.result})
      TAPER_CHECK(id >= 0 && id < size);
    TAPER_CHECK(spec.vocab[merge.result] == spec.vocab[merge.left] + spec.vocab[merge.right]);
    if (special[merge.result])
      throw FormatError(fmt::format("{}: merge {} makes the special token {}", what, rank,
                                    shown(spec, merge.result)));
    if (!pairs.insert(static_cast<uint64_t>(merge.left) << 32 | static_cast<uint64_t>(merge.right))
             .second)
      throw FormatError(fmt::format("{}: merge {} (\"{}\" and \"{}\") appears twice", what, rank,
                                    spec.vocab[merge.left], spec.vocab[merge.right]));
  }
  if (spec.kind == TokenizerKind::kSentencePiece) {
    for (int byte = 0; byte < 256; ++byte)
      if (!entries.contains(byte_token(static_cast<unsigned char>(byte))))
        throw FormatError(fmt::format("{}: the vocabulary lacks the byte token {}", what,
                                      byte_token(static_cast<unsigned char>(byte))));
  }
  for (const AddedToken& token : spec.added) {
    const auto bytes = chars_to_bytes(token.content);
    const bool byte_entry = spec.kind == TokenizerKind::kByteLevel
                                ? bytes && bytes->size() == 1
                                : byte_of_token(token.content) >= 0;
    if (token.special && byte_entry)
      throw FormatError(fmt::format("{}: the special token {} is the token of a byte", what,
                                    shown(spec, token.id)));
  }
}

std::string tokenizer_spec_to_json(const TokenizerSpec& spec) {
  Json root = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["added_tokens"] = added_tokens_json(spec);
  if (spec.kind == TokenizerKind::kByteLevel) {
    root["normalizer"] = nullptr;
    root["pre_tokenizer"] = pre_tokenizer_json(spec);
    root["post_processor"] = post_processor_json(spec);
    root["decoder"] = byte_level_json(true, true);
  } else {
    const Json replace = space_to_mark_json();
    root["normalizer"] = spec.dummy_prefix
                             ? Json{{"type", "Sequence"},
                                    {"normalizers", Json::array({prepend_mark_json(), replace})}}
                             : replace;
    root["pre_tokenizer"] = nullptr;
    root["post_processor"] = post_processor_json(spec);
    root["decoder"] = mark_decoder_json(spec.dummy_prefix);
  }
  root["model"] = model_json(spec);
  return root.dump(2) + "\n";
}

Json space_to_mark_json() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
}

Json prepend_mark_json() { return {{"type", "Prepend"}, {"prepend", kSpaceMark}}; }

Json mark_decoder_json(bool dummy_prefix) {
  Json steps = Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (dummy_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace taper
