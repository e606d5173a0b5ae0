#include "wmtp/run/plan/sizing/sizing_tables.h"

#include <fmt/format.h>

#include <array>

#include "wmtp/run/plan/sizing/preset_request.h"

namespace wmtp::run {
namespace {

constexpr int kGpusOfTableNode = 8;
constexpr std::array kTableGpus = {"h100", "h200"};
constexpr std::array kTableWorlds = {1, 4, 8, 64};
constexpr std::array kFewestWorlds = {1, 2, 4, 8, 16, 32, 64};

struct NamedPreset {
  const char *size, *preset;
};
constexpr NamedPreset kTableModels[] = {
    {"0.6B", "qwen3-0.6b"}, {"7B", "llama-2-7b"}, {"13B", "llama-2-13b"}, {"70B", "llama-2-70b"}};
constexpr NamedPreset kSettingsModels[] = {{"< 1B", "qwen3-0.6b"},
                                           {"1-10B", "llama-3.1-8b"},
                                           {"10-70B", "qwen3-32b"},
                                           {"10-70B", "llama-3.1-70b"}};

SizingPlace place_of(const std::string& gpu) {
  SizingPlace place;
  place.device = c10::Device(c10::DeviceType::CUDA, 0);
  place.ranks_per_node = kGpusOfTableNode;
  const DeviceModel& model = device_model(gpu);
  place.named_gpu = model.gpu();
  place.memory_bytes = [&model](const config::Config&, int) {
    return static_cast<std::int64_t>(model.memory_bytes);
  };
  place.rates = [&model](int) -> const DeviceModel& { return model; };
  return place;
}

RunSizer sizer_of(const TableQuestion& question) {
  PresetRun run{question.preset, 1, kTableLength, {}};
  if (question.lora) run.lora_rank = kTableLoraRank;
  return {preset_request(run), place_of(question.gpu)};
}

TableAnswer answer(RunSizer& sizer, const TableQuestion& question) {
  TableAnswer result{question, {}, {}};
  const SizedRun base = sizer.size({{}, question.world});
  if (!base.fits()) return result;  // one row a rank, FULL_SHARD, all that can be recomputed
  result.chosen = choose(sizer, base, {{}, /*any_samples=*/true});
  if (result.chosen) result.largest_batch = sizer.largest_batch(result.chosen->run);
  return result;
}

TableAnswer answer_on_fewest(TableQuestion question) {
  RunSizer sizer = sizer_of(question);
  TableAnswer last;
  for (const int world : kFewestWorlds) {
    question.world = world;
    last = answer(sizer, question);
    if (last.chosen) break;
  }
  return last;
}

std::string way_of(const TableQuestion& question) {
  return question.lora ? "LoRA" : "full";
}

std::string settings_of(const TableAnswer& answer) {
  const SizedRun& run = answer.chosen->run;
  return fmt::format(
      "{} | {} | {} | {} | {:.1f} | {:.0f}",
      config::name_of(run.config().distributed.fsdp.sharding_strategy),
      config::name_of(run.recompute()), run.batch_size(), answer.largest_batch.value_or(0),
      static_cast<double>(run.needed_bytes()) / 0x1p30, run.speed->tokens_per_s_rank);
}

std::string heading_of(const std::string& gpu) {
  const DeviceModel& model = device_model(gpu);
  return fmt::format("### {}, {:.1f} GiB ({})\n\n", model.title, model.memory_bytes / 0x1p30,
                     model.measured ? "speeds from measured tables" : "speeds estimated");
}

std::string size_table(const std::string& gpu, const std::vector<TableAnswer>& answers) {
  std::string text = heading_of(gpu) +
                     "| model | training | GPUs | fits | strategy | recompute | batch | largest | "
                     "GiB | tokens/s a GPU |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const TableAnswer& one : answers) {
    const TableQuestion& asked = one.question;
    if (asked.gpu != gpu) continue;
    text += fmt::format("| {} ({}) | {} | {} | {} | {} |\n", asked.size, asked.preset,
                        way_of(asked), asked.world, one.chosen ? "yes" : "no",
                        one.chosen ? settings_of(one) : "| | | | |");
  }
  return text;
}

std::string settings_table(const std::string& gpu, const std::vector<TableAnswer>& answers) {
  std::string text =
      heading_of(gpu) +
      "| size | model | training | fewest GPUs | strategy | recompute | batch | "
      "largest | GiB | tokens/s a GPU |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const TableAnswer& one : answers) {
    const TableQuestion& asked = one.question;
    if (asked.gpu != gpu) continue;
    const std::string fewest =
        one.chosen ? std::to_string(asked.world) : fmt::format("more than {}", asked.world);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", asked.size, asked.preset, way_of(asked),
                        fewest, one.chosen ? settings_of(one) : "| | | | |");
  }
  return text;
}

}  // namespace

std::vector<TableAnswer> size_answers() {
  std::vector<TableAnswer> answers;
  for (const char* gpu : kTableGpus)
    for (const NamedPreset& model : kTableModels)
      for (const bool lora : {false, true}) {
        TableQuestion question{model.size, model.preset, lora, gpu, 1};
        RunSizer sizer = sizer_of(question);
        for (const int world : kTableWorlds) {
          question.world = world;
          answers.push_back(answer(sizer, question));
        }
      }
  return answers;
}

std::vector<TableAnswer> settings_answers() {
  std::vector<TableAnswer> answers;
  for (const char* gpu : kTableGpus)
    for (const NamedPreset& model : kSettingsModels)
      for (const bool lora : {false, true})
        answers.push_back(answer_on_fewest({model.size, model.preset, lora, gpu, 1}));
  return answers;
}

std::string sizing_tables() {
  const auto sizes = size_answers(), settings = settings_answers();
  std::string text = "## What fits\n";
  for (const char* gpu : kTableGpus) text += "\n" + size_table(gpu, sizes);
  text += "\n## Settings by size of the model\n";
  for (const char* gpu : kTableGpus) text += "\n" + settings_table(gpu, settings);
  return text;
}

}  // namespace wmtp::run
