// The figures of the report in words and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "report/figure.h"
#include "report/format.h"
#include "report/sections.h"

namespace taper {
namespace {

std::string card(const std::string& value, const std::string& label) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>", html_escape(value),
                     html_escape(label));
}

std::string cell(const std::string& text) {
  return fmt::format("<td class=\"n\">{}</td>", html_escape(text));
}

// A speed with a bar as long as its share of the fastest.
std::string speed_cell(double tokens_per_s, double fastest) {
  return fmt::format("<td class=\"n\">{}<i class=\"bar\"><i style=\"width:{:.1f}%\"></i></i></td>",
                     format_significant(tokens_per_s, 4), 100 * tokens_per_s / fastest);
}

// "4.9 M" tokens.
std::string format_tokens(double tokens) {
  if (std::isnan(tokens)) return "–";
  if (tokens < 1e6) return format_count(std::llround(tokens));
  return fmt::format("{} M", format_significant(tokens / 1e6, 3));
}

std::string times(double ratio) { return fmt::format("{:.3f}×", ratio); }

std::string run_row(const Run& run, size_t index, const Run& reference) {
  const double gap = 100 * (run.judged_loss() / reference.judged_loss() - 1);
  std::string out = fmt::format(
      "<tr><td>{}{}{}</td><td>{}</td>",
      render_swatch(static_cast<int>(index), Stroke::kSolid, Marker::kNone), html_escape(run.name),
      run.finished ? "" : " <em>unfinished</em>", html_escape(run.scope.empty() ? "–" : run.scope));
  out += cell(format_fixed(run.train_loss, 4));
  out += cell(format_fixed(run.judged_loss(), 4));
  out += cell(index == 0 ? "–" : format_percent(gap));
  out += cell(run.num_parameters > 0 ? format_count(run.num_parameters) : "–");
  out += cell(format_count(run.steps));
  out += cell(format_tokens(run.tokens));
  out += cell(format_significant(run.tokens_per_s, 4));
  out += cell(std::isnan(run.seconds) ? "–" : format_duration(run.seconds));
  return out + "</tr>\n";
}

}  // namespace

std::string summary_section(const Summary& s) {
  const double fastest =
      std::max({s.baseline_tokens_per_s, s.explicit_tokens_per_s, s.folded_tokens_per_s});
  std::string out = "<section><div class=\"cards\">";
  out += card(format_percent(s.gap_percent()), "loss without norms, against the baseline");
  out += card(format_significant(s.fold_max_abs_logit_diff, 2),
              "largest logit difference of the fold");
  out += card(times(s.folded_tokens_per_s / s.baseline_tokens_per_s), "decoding speed, folded");
  out += card(format_count(s.parameters), "parameters");
  out += card(format_duration(s.seconds), "for the whole demo");
  out +=
      "</div>\n<div class=\"scroll\"><table><thead><tr><th></th><th class=\"n\">baseline</th>"
      "<th class=\"n\">tapered, g = 0</th><th class=\"n\">folded</th></tr></thead><tbody>\n";
  out += "<tr><td>validation loss, nats per token</td>" + cell(format_fixed(s.baseline_loss, 4)) +
         cell(format_fixed(s.tapered_loss, 4)) + cell(format_fixed(s.folded_loss, 4)) + "</tr>\n";
  out += "<tr><td>gap to the baseline</td>" + cell("–") + cell(format_percent(s.gap_percent())) +
         cell(format_percent(100 * (s.folded_loss / s.baseline_loss - 1))) + "</tr>\n";
  out += "<tr><td>decoding, tokens/s</td>" + speed_cell(s.baseline_tokens_per_s, fastest) +
         speed_cell(s.explicit_tokens_per_s, fastest) + speed_cell(s.folded_tokens_per_s, fastest) +
         "</tr>\n";
  out += "<tr><td>speed against the baseline</td>" + cell("–") +
         cell(times(s.explicit_tokens_per_s / s.baseline_tokens_per_s)) +
         cell(times(s.folded_tokens_per_s / s.baseline_tokens_per_s)) + "</tr>\n";
  out += "</tbody></table></div>\n";
  if (!s.sample.empty()) {
    out += "<h3>Written by the folded model</h3><blockquote>" + html_escape(s.sample) +
           "</blockquote>\n";
  }
  return out + "</section>\n";
}

std::string table_section(const std::vector<Run>& runs) {
  std::string out =
      "<section><h2>Runs</h2><div class=\"scroll\"><table><thead><tr><th>run</th><th>taper</th>"
      "<th class=\"n\">train loss</th><th class=\"n\">valid. loss</th><th class=\"n\">gap</th>"
      "<th class=\"n\">parameters</th><th class=\"n\">steps</th><th class=\"n\">tokens</th>"
      "<th class=\"n\">tokens/s</th><th class=\"n\">time</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < runs.size(); ++i) out += run_row(runs[i], i, runs.front());
  out +=
      "</tbody></table></div><p class=\"note\">Losses in nats per token at the last step; the "
      "validation loss of a tapered run is the one at g = 0";
  if (runs.size() > 1) out += "; gap to " + html_escape(runs.front().name);
  return out + ".</p></section>\n";
}

std::string config_section(const std::vector<Run>& runs) {
  std::string out;
  for (const Run& run : runs) {
    if (run.config_toml.empty()) continue;
    out += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                       html_escape(run.name), html_escape(run.config_toml));
  }
  return out.empty() ? "" : "<section><h2>Configuration</h2>\n" + out + "</section>\n";
}

}  // namespace taper
