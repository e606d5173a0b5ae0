#include "wmtp/config/tables/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

std::map<std::string, std::string, std::less<>> section_texts() {
  return {
      {"experiment", "The run."},
      {"models",
       "A model is a Hugging Face folder, a Meta folder (params.json), a wmtp checkpoint, a .pt "
       "file or "
       "a preset name."},
      {"models.policy", "The model that is trained."},
      {"models.value_model", "critic and verifiable: the model that rates tokens."},
      {"models.reference", "rho1: the model that tokens are compared with."},
      {"dataset", "What is read, and how rows become tokens."},
      {"dataset.text", "Only with format text."},
      {"data_sampling", "Which rows an epoch has."},
      {"training", "Steps, optimizer, and the objective of each stage."},
      {"training.lora", "Only with use_lora."},
      {"training.optimizer", "The optimizer."},
      {"training.lr_scheduler", "Course of the learning rate."},
      {"training.td", "verifiable: token weights from values."},
      {"training.control", "verifiable: control experiment with random weights."},
      {"training.value", "verifiable: where values come from."},
      {"training.value_head", "The value head."},
      {"training.value_loss", "critic: the loss of the value head."},
      {"training.value_loss.lambda_schedule", "Course of lambda in lambda_return."},
      {"training.rho1", "rho1: token selection."},
      {"checkpoint", "Saving and resuming."},
      {"distributed", "Ranks and what they share."},
      {"distributed.fsdp", "Sharding, precision, memory."},
      {"distributed.fsdp.prefetch", "Units gathered ahead."},
      {"runtime", "The machine and the course of a run."},
      {"runtime.loss_spike", "Watch over the loss."},
      {"mlflow", "Tracking server; credentials come from MLFLOW_TRACKING_* variables."},
      {"tracking", "Metrics in files."},
      {"storage", "Storage outside this machine."},
      {"storage.s3",
       "S3; credentials come from AWS_* variables, profile files or the instance role."},
      {"logging", "Log lines."},
  };
}

}  // namespace

bool Range::holds(double value) const {
  if (lo_open ? !(value > lo) : !(value >= lo)) return false;
  return hi_open ? value < hi : value <= hi;
}

std::string Range::text() const {
  const bool has_lo = std::isfinite(lo), has_hi = std::isfinite(hi);
  if (has_lo && has_hi)
    return fmt::format("{}{}, {}{}", lo_open ? "(" : "[", lo, hi, hi_open ? ")" : "]");
  if (has_lo) return fmt::format("{} {}", lo_open ? ">" : ">=", lo);
  if (has_hi) return fmt::format("{} {}", hi_open ? "<" : "<=", hi);
  return "";
}

Schema::Schema() : sections_(section_texts()) {
  add_model_rows(rows_);
  add_data_rows(rows_);
  add_training_rows(rows_);
  add_objective_rows(rows_);
  add_checkpoint_rows(rows_);
  add_runtime_rows(rows_);
  add_tracking_rows(rows_);
  add_storage_rows(rows_);
  add_logging_rows(rows_);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    by_key_[rows_[i].key] = i;
    const std::string section = rows_[i].key.substr(0, rows_[i].key.rfind('.'));
    WMTP_CHECK(sections_.contains(section), "no help text for section " + section);
  }
}

const Row* Schema::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &rows_[found->second];
}

std::vector<std::string> Schema::children(std::string_view section) const {
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    if (!row.key.starts_with(prefix)) continue;
    std::string name = row.key.substr(prefix.size());
    name = name.substr(0, name.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Schema::keys_and_sections() const {
  std::vector<std::string> all;
  for (const Row& row : rows_) all.push_back(row.key);
  for (const auto& [path, help] : sections_) all.push_back(path);
  return all;
}

const Schema& schema() {
  static const Schema table;
  return table;
}

}  // namespace wmtp::config
