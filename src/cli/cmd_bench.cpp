// taper bench: measurements beside the limits they are judged against.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "cli/bench_train.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "infer/decode_bench.h"

namespace taper {
namespace {

struct Options {
  std::vector<std::string> variants;
  DecodeBenchOptions bench;
  int threads = 0;
  bool json = false;
};

struct VariantSpec {
  std::string name;
  std::filesystem::path path;
  ModelOptions options;
};

// "[name=]path[:gate=G]"; the name is the path's last part unless given.
VariantSpec parse_variant(const std::string& text) {
  constexpr std::string_view kGate = ":gate=";
  VariantSpec spec;
  std::string path = text;
  if (const size_t at = path.rfind(kGate); at != std::string::npos) {
    const std::string number = path.substr(at + kGate.size());
    double gate = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), gate);
    if (error != std::errc() || end != number.data() + number.size()) {
      throw ConfigError(fmt::format("{}: gate \"{}\" is not a number", text, number),
                        "write [name=]path[:gate=G] with G from 0 to 1");
    }
    spec.options.gate = gate;
    path.resize(at);
  }
  if (const size_t equals = path.find('='); equals != std::string::npos) {
    spec.name = path.substr(0, equals);
    path.erase(0, equals + 1);
  }
  spec.path = path;
  if (spec.name.empty()) spec.name = text;
  return spec;
}

Json to_json(const DecodeRow& row, int threads) {
  return {{"variant", row.variant},
          {"dtype", "float32"},
          {"threads", threads},
          {"tokens_per_s", row.median},
          {"min", row.min},
          {"median", row.median},
          {"max", row.max},
          {"ratio", row.ratio},
          {"limit_tokens_per_s", row.limit},
          {"weight_bytes_per_token", row.weight_bytes}};
}

std::string table(const std::vector<DecodeRow>& rows) {
  size_t width = 7;
  for (const DecodeRow& row : rows) width = std::max(width, row.variant.size());
  std::string text = fmt::format("{:<{}}{:>12}{:>12}{:>12}{:>8}{:>12}{:>10}\n", "variant", width,
                                 "tokens/s", "min", "max", "ratio", "limit", "of limit");
  for (const DecodeRow& row : rows) {
    text += fmt::format("{:<{}}{:>12.1f}{:>12.1f}{:>12.1f}{:>8.3f}{:>12.1f}{:>8.0f} %\n",
                        row.variant, width, row.median, row.min, row.max, row.ratio, row.limit,
                        100 * row.median / row.limit);
  }
  return text;
}

void run_decode(const Options& options) {
  std::vector<Model> models;
  models.reserve(options.variants.size());
  std::vector<DecodeVariant> variants;
  for (const std::string& text : options.variants) {
    const VariantSpec spec = parse_variant(text);
    models.emplace_back(Checkpoint::open(spec.path), spec.options);
    variants.push_back({spec.name, &models.back()});
  }
  ThreadPool pool(options.threads);
  const std::vector<DecodeRow> rows = bench_decode(variants, pool, options.bench);
  if (!options.json) {
    print_text(table(rows));
    return;
  }
  Json list = Json::array();
  for (const DecodeRow& row : rows) list.push_back(to_json(row, pool.size()));
  print_json({{"bench", "decode"},
              {"new_tokens", options.bench.new_tokens},
              {"rounds", options.bench.rounds},
              {"rows", std::move(list)}});
}

void setup_decode(CLI::App& group) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_subcommand(group, "decode", "tokens per second of one sequence, one by one");
  app.add_option("CKPT", options->variants, "checkpoints: [name=]folder[:gate=G]")
      ->type_name(kFolder)
      ->required();
  app.add_option("--new", options->bench.new_tokens, "tokens a round");
  app.add_option("--rounds", options->bench.rounds, "timed rounds, after one to warm up");
  add_threads(app, options->threads);
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "The checkpoints take turns, round by round; the ratio is to the first. The limit is the\n"
      "speed at which this machine reads the weights of one token.\n\n"
      "Examples:\n"
      "  taper bench decode baseline=runs/a scaled=runs/b:gate=0 folded=folded");
  app.callback([options] { run_decode(*options); });
}

}  // namespace

void setup_bench(CLI::App& parent) {
  CLI::App& group = add_command_group(parent, kInspect, "bench", "measure speed");
  setup_decode(group);
  setup_bench_train(group);
}

}  // namespace taper
