// A real model that nobody here trained: its known loss and its documented text (../shared/data).
#include "stories260k.h"

#include <gtest/gtest.h>

#include "core/file.h"
#include "infer/evaluate.h"
#include "infer/generate.h"
#include "shared_data.h"
#include "temp_dir.h"

namespace taper {
namespace {

TEST(Stories260K, KnownLoss_IsReproduced) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const TempDir folder;
  test::import_stories260k(*data, folder / "model");
  const Model model(Checkpoint::open(folder / "model"));
  const auto tokenizer = load_tokenizer(folder / "model/tokenizer.json");
  const std::string text = read_file(*data / "tinystories/tinystories_eval200.txt");
  ThreadPool pool;
  const Evaluation result =
      evaluate(model, pool, text_documents(text, "eval200", model.config(), *tokenizer, 512));
  EXPECT_EQ(result.tokens, 70718);
  EXPECT_EQ(result.sequences, 200);
  EXPECT_NEAR(result.loss, 1.30651, 0.0005);
}

// The document quotes the text between "-t 0.0" and the end of its code block.
std::string documented_text(const std::filesystem::path& document) {
  const std::string all = read_file(document);
  const std::string command = "-t 0.0\n";
  const size_t begin = all.find(command) + command.size();
  return all.substr(begin, all.find("\n```", begin) - begin);
}

TEST(Stories260K, GreedyText_IsTheDocumentedOne) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const TempDir folder;
  test::import_stories260k(*data, folder / "model");
  const Model model(Checkpoint::open(folder / "model"));
  const auto tokenizer = load_tokenizer(folder / "model/tokenizer.json");
  const Prompt prompt = make_prompt(model.config(), *tokenizer, "");
  EXPECT_EQ(prompt.ids, std::vector<TokenId>{1});
  ThreadPool pool;
  Session session(model, pool, needed_capacity(model.config(), 1, 256));
  GenerateOptions options{.max_new_tokens = 256};
  options.sampler.temperature = 0;
  const Generation result = generate(model, *tokenizer, session, prompt, options);
  EXPECT_EQ(result.text, documented_text(*data / "stories260K/stories260K.md"));
  EXPECT_EQ(result.ids.size(), 256u);
}

}  // namespace
}  // namespace taper
