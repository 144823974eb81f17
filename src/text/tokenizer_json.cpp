// Reading tokenizer.json: every part is either understood exactly or refused by name.
#include <fmt/format.h>

#include <set>
#include <unordered_map>

#include "core/error.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"

namespace taper {
namespace {

constexpr int64_t kMaxEntries = int64_t{1} << 24;

// Another spelling of kGpt2Pattern in use; both match the same words.
constexpr std::string_view kGpt2PatternFactored =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Equal whatever the order of members.
bool same(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

class Reader {
 public:
  Reader(const Json& root, const std::string& what) : root_(root), what_(what) {}

  TokenizerSpec read() {
    if (!root_.is_object()) fail("the file", "an object");
    for (const char* part : {"truncation", "padding"})
      if (!member(root_, part).is_null())
        throw FormatError(
            fmt::format("{}: {} is set, which would change the ids", what_, part),
            fmt::format("set \"{}\" to null; lengths are the caller's business here", part));
    const Json& model = member(root_, "model");
    read_model(model);
    read_added_tokens();
    read_merges(member(model, "merges"));
    const Json& normalizer = member(root_, "normalizer");
    const Json& pre_tokenizer = member(root_, "pre_tokenizer");
    if (byte_fallback_ && pre_tokenizer.is_null()) {
      spec_.kind = TokenizerKind::kSentencePiece;
      spec_.unk = find(unk_token_);
      read_mark_normalizer(normalizer);
      check_mark_decoder(member(root_, "decoder"));
    } else {
      if (!normalizer.is_null()) refuse("normalizer", normalizer);
      read_pre_tokenizer(pre_tokenizer);
      if (type_of(member(root_, "decoder")) != "ByteLevel")
        refuse("decoder", member(root_, "decoder"));
      check_fallbacks();
    }
    read_post_processor(member(root_, "post_processor"));
    find_end_token();
    check_tokenizer_spec(spec_, what_);
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(const std::string& part, const std::string& expected) {
    throw FormatError(fmt::format("{}: {}: expected {}", what_, part, expected));
  }
  [[noreturn]] void refuse(const std::string& part, const Json& found) {
    std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 160) shown = shown.substr(0, 160) + "...";
    throw FormatError(
        fmt::format("{}: {} is of a kind that is not supported: {}", what_, part, shown),
        "supported are byte-level BPE with the GPT-2 split pattern and "
        "SentencePiece-style BPE with byte fallback");
  }

  // The member or null.
  const Json& member(const Json& object, const char* key) {
    static const Json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }
  std::string type_of(const Json& part) {
    return part.is_object() ? json_value<std::string>(part, "type", "", what_) : "";
  }
  TokenId find(const std::string& token) {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  void read_model(const Json& model) {
    if (!model.is_object()) fail("model", "an object");
    const std::string type = json_value<std::string>(model, "type", "BPE", what_);
    if (type != "BPE")
      throw FormatError(fmt::format("{}: model type is {}, expected BPE", what_, type));
    if (json_value<double>(model, "dropout", 0.0, what_) != 0.0)
      throw FormatError(what_ + ": model.dropout is set, which makes ids random");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!json_value<std::string>(model, key, "", what_).empty())
        throw FormatError(fmt::format("{}: model.{} is not supported", what_, key));
    unk_token_ = json_value<std::string>(model, "unk_token", "", what_);
    byte_fallback_ = json_value<bool>(model, "byte_fallback", false, what_);
    spec_.ignore_merges = json_value<bool>(model, "ignore_merges", false, what_);

    const Json& vocab = member(model, "vocab");
    if (!vocab.is_object()) fail("model.vocab", "an object");
    for (const auto& [token, id] : vocab.items()) place(token, id, "model.vocab");
  }

  void place(const std::string& token, const Json& id, const std::string& part) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= kMaxEntries)
      fail(fmt::format("{}, \"{}\"", part, token),
           fmt::format("an id in 0..{}, found {}", kMaxEntries - 1, id.dump()));
    const auto value = id.get<int64_t>();
    if (value >= static_cast<int64_t>(by_id_.size())) by_id_.resize(value + 1);
    if (by_id_[value])
      throw FormatError(fmt::format("{}: {}: id {} belongs to both \"{}\" and \"{}\"", what_, part,
                                    value, *by_id_[value], token));
    by_id_[value] = &ids_.emplace(token, static_cast<TokenId>(value)).first->first;
  }

  void read_added_tokens() {
    const Json& list = member(root_, "added_tokens");
    if (!list.is_null() && !list.is_array()) fail("added_tokens", "a list");
    std::set<std::string> seen;
    for (const Json& item : list) {
      AddedToken token;
      token.content = json_at<std::string>(item, "content", what_);
      const std::string part = fmt::format("added_tokens, \"{}\"", token.content);
      if (token.content.empty()) fail(part, "some text");
      if (!seen.insert(token.content).second)
        throw FormatError(fmt::format("{}: {} appears twice", what_, part));
      for (const char* flag : {"single_word", "lstrip", "rstrip"})
        if (json_value<bool>(item, flag, false, what_))
          throw FormatError(fmt::format("{}: {}: {} is not supported", what_, part, flag));
      token.special = json_value<bool>(item, "special", false, what_);
      token.normalized = json_value<bool>(item, "normalized", false, what_);
      const auto id = json_at<int64_t>(item, "id", what_);
      if (const TokenId known = find(token.content); known < 0)
        place(token.content, Json(id), part);
      else if (known != id)
        throw FormatError(
            fmt::format("{}: {} has id {}, but the vocabulary says {}", what_, part, id, known));
      token.id = static_cast<TokenId>(id);
      spec_.added.push_back(token);
    }
    spec_.vocab.reserve(by_id_.size());
    for (size_t id = 0; id < by_id_.size(); ++id) {
      if (by_id_[id] == nullptr)
        throw FormatError(fmt::format("{}: no entry has id {}, but ids go up to {}", what_, id,
                                      by_id_.size() - 1));
      spec_.vocab.push_back(*by_id_[id]);
    }
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) fail("model.merges", "a list");
    spec_.merges.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto part = [&] { return fmt::format("{}: model.merges[{}]", what_, rank); };
      std::string left, right;
      const Json& merge = merges[rank];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
          throw FormatError(
              fmt::format("{}: expected two entries and a space, found \"{}\"", part(), text));
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else {
        throw FormatError(part() + ": expected a string or a pair of strings");
      }
      const BpeMerge ids{find(left), find(right), find(left + right)};
      for (const auto& [id, token] : {std::pair{ids.left, left}, std::pair{ids.right, right},
                                      std::pair{ids.result, left + right}})
        if (id < 0)
          throw FormatError(fmt::format("{}: \"{}\" is not in the vocabulary", part(), token));
      spec_.merges.push_back(ids);
    }
  }

  // Byte-level: the list of steps; the last one maps bytes to the byte alphabet.
  void read_pre_tokenizer(const Json& part) {
    std::vector<const Json*> steps{&part};
    if (type_of(part) == "Sequence") {
      steps.clear();
      const Json& list = member(part, "pretokenizers");
      if (!list.is_array() || list.empty()) fail("pre_tokenizer.pretokenizers", "a list");
      for (const Json& step : list) steps.push_back(&step);
    }
    for (const Json* step : steps) {
      const std::string type = type_of(*step);
      if (type == "ByteLevel" && step == steps.back()) {
        if (json_value<bool>(*step, "add_prefix_space", false, what_))
          spec_.steps.push_back(SplitStep::kPrefixSpace);
        if (json_value<bool>(*step, "use_regex", true, what_))
          spec_.steps.push_back(SplitStep::kGpt2);
        return;
      }
      if (type == "Digits") {
        spec_.steps.push_back(json_value<bool>(*step, "individual_digits", false, what_)
                                  ? SplitStep::kDigits
                                  : SplitStep::kDigitRuns);
      } else if (type == "Split" && is_gpt2_split(*step)) {
        spec_.steps.push_back(SplitStep::kGpt2);
      } else {
        refuse("pre_tokenizer", *step);
      }
    }
    refuse("pre_tokenizer (it lacks ByteLevel)", part);
  }

  bool is_gpt2_split(const Json& step) {
    const Json& pattern = member(step, "pattern");
    const std::string regex =
        pattern.is_object() ? json_value<std::string>(pattern, "Regex", "", what_) : "";
    const bool known = regex == kGpt2Pattern || regex == kGpt2PatternFactored;
    // The pattern covers all text: isolating its matches and removing what lies between are the
    // same.
    const auto behavior = json_value<std::string>(step, "behavior", "", what_);
    const bool invert = json_value<bool>(step, "invert", false, what_);
    return known && ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert));
  }

  // With every byte in the vocabulary nothing is unknown and these settings have no effect.
  void check_fallbacks() {
    bool complete = true;
    for (int byte = 0; byte < 256; ++byte)
      complete = complete && find(bytes_to_chars(std::string(1, static_cast<char>(byte)))) >= 0;
    if (complete) return;
    if (byte_fallback_)
      throw FormatError(what_ + ": model.byte_fallback with a vocabulary that lacks some bytes");
    if (!unk_token_.empty())
      throw FormatError(what_ + ": model.unk_token with a vocabulary that lacks some bytes");
  }

  // SentencePiece: [Prepend mark,] Replace " " by the mark.
  void read_mark_normalizer(const Json& part) {
    const Json replace = space_to_mark_json();
    const Json both = {{"type", "Sequence"},
                       {"normalizers", Json::array({prepend_mark_json(), replace})}};
    if (!same(part, replace) && !same(part, both)) refuse("normalizer", part);
    spec_.dummy_prefix = same(part, both);
    if (spec_.ignore_merges)
      throw FormatError(what_ + ": model.ignore_merges is not supported here");
  }

  void check_mark_decoder(const Json& part) {
    if (!same(part, mark_decoder_json(spec_.dummy_prefix))) refuse("decoder", part);
  }

  // Ids never include what a post-processor adds; it only tells which token begins a text.
  void read_post_processor(const Json& part) {
    const std::string type = type_of(part);
    if (part.is_null() || type == "ByteLevel") return;
    if (type == "Sequence") {
      for (const Json& step : member(part, "processors")) read_post_processor(step);
      return;
    }
    if (type != "TemplateProcessing") refuse("post_processor", part);
    const Json& single = member(part, "single");
    if (!single.is_array() || single.empty()) fail("post_processor.single", "a list");
    const Json& first = member(single[0], "SpecialToken");
    if (!first.is_object()) return;
    const auto token = json_at<std::string>(first, "id", what_);
    spec_.bos = find(token);
    if (spec_.bos < 0)
      throw FormatError(
          fmt::format("{}: post_processor: \"{}\" is not in the vocabulary", what_, token));
  }

  void find_end_token() {
    for (const std::string_view name :
         {std::string_view("</s>"), kEndOfText, std::string_view("<|end_of_text|>"),
          std::string_view("<eos>")})
      for (const AddedToken& token : spec_.added)
        if (spec_.eos < 0 && token.special && token.content == name) spec_.eos = token.id;
  }

  const Json& root_;
  const std::string& what_;
  TokenizerSpec spec_;
  std::string unk_token_;
  bool byte_fallback_ = false;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<const std::string*> by_id_;
};

}  // namespace

TokenizerSpec parse_tokenizer_json(const std::string& text, const std::string& what) {
  const Json root = parse_json(text, what);
  return Reader(root, what).read();
}

}  // namespace taper
