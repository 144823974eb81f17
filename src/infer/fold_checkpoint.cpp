#include "infer/fold_checkpoint.h"

#include "core/file.h"

namespace taper {

FoldReport fold_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                           bool replace, const TokenSample& sample, ThreadPool& pool) {
  const FoldedModel folded = fold(checkpoint);
  FoldReport report;
  report.norms_folded = std::ssize(folded.plan.steps);
  for (const NormSite& site : norm_sites(checkpoint.config())) {
    report.norms_kept += checkpoint.norm_state(site) == NormState::kPlain ? 1 : 0;
  }
  std::string tokenizer;
  if (const auto path = checkpoint.tokenizer_path()) tokenizer = read_file(*path);
  AtomicDirectory directory(out, replace);
  write_checkpoint_files(directory.path(), folded.plan.config, folded.plan.taper,
                         folded.tensors.views(), tokenizer);
  {
    // From the file, so that what is verified is what will be read.
    const Model reference(checkpoint);
    const Model result(Checkpoint::open(directory.path()));
    report.comparison = compare_models(reference, result, pool, sample);
  }
  report.comparison.require_within(kLogitTolerance,
                                   out.string() + ": the folded model is not the tapered one");
  directory.commit();
  return report;
}

}  // namespace taper
