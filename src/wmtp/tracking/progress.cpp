#include "wmtp/tracking/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/time.h"
#include "wmtp/tracking/append_file.h"

namespace wmtp::tracking {
namespace {

void put(OrderedJson& line, const char* key, const std::optional<double>& value) {
  if (value) line[key] = json_number(*value);
}

}  // namespace

std::string step_line(const Progress& p, std::optional<double> eta_s) {
  std::string line = fmt::format(
      "Step {}/{} (epoch {:.2f}) | Loss: {:.5f} | lr: {:.2e} | grad_norm: {:.2f} | "
      "Speed: {:.2f} samples/sec, {:.0f} tokens/sec",
      p.step, p.num_steps, p.epoch, p.loss, p.learning_rate, p.grad_norm, p.samples_per_sec,
      p.tokens_per_sec);
  if (p.mfu) line += fmt::format(" | MFU: {:.2f}", *p.mfu);
  if (p.memory_used_gib && p.memory_limit_gib)
    line += fmt::format(" | memory: {:.1f}/{:.1f} GiB", *p.memory_used_gib, *p.memory_limit_gib);
  else if (p.memory_used_gib)
    line += fmt::format(" | memory: {:.1f} GiB", *p.memory_used_gib);
  if (eta_s) line += " | ETA: " + format_duration(*eta_s);
  return line;
}

std::string validation_line(const Validation& v) {
  std::string line = fmt::format("Step {} Validation Loss: {:.5f}", v.step, v.loss);
  if (v.perplexity) line += fmt::format(" | ppl: {:.3f}", *v.perplexity);
  for (const auto& [name, value] : v.others) line += fmt::format(" | {}: {:.4g}", name, value);
  return line;
}

std::string validating_line(const ValidationProgress& at) {
  return fmt::format("Step {} Validating: {} of {} batches ({} %)", at.step, at.num_done,
                     at.num_batches, 100 * at.num_done / std::max<std::int64_t>(at.num_batches, 1));
}

std::string saving_line(std::int64_t step) {
  return fmt::format("Saving checkpoint at step {}", step);
}

std::string saved_line(const SavedCheckpoint& saved) {
  return fmt::format("Saved checkpoint {} in {:.1f} s (blocked {:.2f} s)", saved.name,
                     saved.seconds, saved.blocked_s);
}

std::string resumed_line(const Resumed& r) {
  return fmt::format("Resumed from {} (saved by {} rank{}, now {})", r.name, r.saved_ranks,
                     r.saved_ranks == 1 ? "" : "s", r.num_ranks);
}

OrderedJson step_json(const Progress& p, std::optional<double> eta_s) {
  OrderedJson line{{"step", p.step},
                   {"num_steps", p.num_steps},
                   {"epoch", json_number(p.epoch)},
                   {"loss", json_number(p.loss)}};
  put(line, "unweighted_loss", p.unweighted_loss);
  line["learning_rate"] = json_number(p.learning_rate);
  line["grad_norm"] = json_number(p.grad_norm);
  line["samples_per_sec"] = json_number(p.samples_per_sec);
  line["tokens_per_sec"] = json_number(p.tokens_per_sec);
  line["step_time_s"] = json_number(p.step_time_s);
  put(line, "mfu", p.mfu);
  put(line, "memory_used_gib", p.memory_used_gib);
  put(line, "memory_limit_gib", p.memory_limit_gib);
  put(line, "data_wait_ratio", p.data_wait_ratio);
  put(line, "eta_s", eta_s);
  return line;
}

OrderedJson validation_json(const Validation& v) {
  OrderedJson line{{"step", v.step}, {"loss", json_number(v.loss)}};
  put(line, "perplexity", v.perplexity);
  for (const auto& [name, value] : v.others) line[name] = json_number(value);
  line["seconds"] = json_number(v.seconds);
  return line;
}

OrderedJson saved_json(const SavedCheckpoint& saved) {
  return {{"action", "saved"},
          {"step", saved.step},
          {"name", saved.name},
          {"seconds", json_number(saved.seconds)},
          {"blocked_s", json_number(saved.blocked_s)}};
}

OrderedJson resumed_json(const Resumed& r) {
  return {{"action", "resumed"},
          {"step", r.step},
          {"name", r.name},
          {"saved_ranks", r.saved_ranks},
          {"num_ranks", r.num_ranks}};
}

}  // namespace wmtp::tracking
