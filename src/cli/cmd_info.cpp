// taper info: what a checkpoint is.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path checkpoint;
  bool json = false;
};

// Elements of all tensors that the model uses (a tied head counts once).
int64_t count_parameters(const Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const TensorSpec& spec : expected_tensors(checkpoint.config(), checkpoint.taper()))
    count += checkpoint.tensors().at(spec.name).num_elements();
  return count;
}

std::string dtypes(const Checkpoint& checkpoint) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : checkpoint.tensors().views())
    names.insert(dtype_name(tensor.dtype));
  return fmt::format("{}", fmt::join(names, "+"));
}

Json describe(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const TaperState& taper = checkpoint.taper();
  std::array<int64_t, 3> states{};
  for (const NormSite& site : norm_sites(config))
    ++states[static_cast<size_t>(checkpoint.norm_state(site))];
  Json tokenizer;  // null without one
  if (const auto path = checkpoint.tokenizer_path()) {
    const auto loaded = load_tokenizer(*path);
    tokenizer = {{"vocab_size", loaded->vocab_size()},
                 {"bos_id", loaded->bos_id()},
                 {"eos_id", loaded->eos_id()},
                 {"fingerprint", fmt::format("{:016x}", loaded->fingerprint())}};
  }
  return {{"path", checkpoint.path().string()},
          {"family", config.family},
          {"parameters", count_parameters(checkpoint)},
          {"dtype", dtypes(checkpoint)},
          {"bytes", fs::file_size(checkpoint.path() / "model.safetensors")},
          {"layers", config.num_layers},
          {"width", config.width},
          {"ffn_width", config.ffn_width},
          {"heads", config.num_heads},
          {"kv_heads", config.num_kv_heads},
          {"head_width", config.head_width},
          {"vocab_size", config.vocab_size},
          {"context", config.context},
          {"rope_theta", config.rope_theta},
          {"norm_eps", config.norm_eps},
          {"tied_head", config.tied_head},
          {"norms", {{"plain", states[0]}, {"tapered", states[1]}, {"folded", states[2]}}},
          {"scope", to_string(taper.scope)},
          {"phase", taper.phase},
          {"gate", taper.gate},
          {"anchor", taper.anchor},
          {"anchor_target", taper.anchor_target ? Json(*taper.anchor_target) : Json()},
          {"tokenizer", std::move(tokenizer)},
          {"source", taper.source}};
}

std::string for_people(const Checkpoint& checkpoint, const Json& info) {
  const ModelConfig& c = checkpoint.config();
  const TaperState& taper = checkpoint.taper();
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12}{}\n", name, value);
  };
  const Json& norms = info["norms"];
  line("checkpoint", checkpoint.path().string());
  line("model",
       fmt::format("{}, {} parameters, {}, {} bytes", c.family, info["parameters"].get<int64_t>(),
                   info["dtype"].get<std::string>(), info["bytes"].get<uint64_t>()));
  line("shape",
       fmt::format("{} layers, width {}, feed-forward {}, {} heads of {} ({} for k and v)",
                   c.num_layers, c.width, c.ffn_width, c.num_heads, c.head_width, c.num_kv_heads));
  line("head", c.tied_head ? "tied to the embedding" : "its own");
  line("context", fmt::format("{} tokens", c.context));
  line("norms",
       fmt::format("{} plain, {} tapered, {} folded (eps {})", norms["plain"].get<int64_t>(),
                   norms["tapered"].get<int64_t>(), norms["folded"].get<int64_t>(), c.norm_eps));
  line("taper",
       fmt::format(
           "scope {}, phase {}, gate {:.6g}{}", to_string(taper.scope), taper.phase, taper.gate,
           taper.anchor_target ? fmt::format(", anchor target {:.6g}", *taper.anchor_target) : ""));
  const Json& tokenizer = info["tokenizer"];
  line("vocabulary",
       fmt::format("{}, {}", c.vocab_size,
                   tokenizer.is_null() ? std::string("no tokenizer")
                                       : fmt::format("tokenizer.json of {}",
                                                     tokenizer["vocab_size"].get<int64_t>())));
  if (!taper.source.empty()) line("source", taper.source.dump());
  return text;
}

void run(const Options& options) {
  const Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
  const Json info = describe(checkpoint);
  if (options.json)
    print_json(info);
  else
    print_text(for_people(checkpoint, info));
}

}  // namespace

void setup_info(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_command(parent, kInspect, "info", "say what a checkpoint is");
  app.add_option("CKPT", options->checkpoint, "checkpoint folder, or a run: its latest checkpoint")
      ->type_name(kFolder)
      ->required();
  add_json(app, options->json);
  add_quiet(app);
  app.footer("Examples:\n  taper info runs/demo/taper");
  app.callback([options] { run(*options); });
}

}  // namespace taper
