#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/error.h"
#include "wmtp/exports/from_source.h"

namespace wmtp::cli {
namespace {

struct ExportFlags {
  std::string path, format, out, dtype, base_model;
  std::uint64_t max_shard_bytes = 5'000'000'000;
  bool keep_mtp = false, merge_lora = false, no_verify = false;
};

// Adapters are small, and as exact as they were trained.
DType dtype_of(const ExportFlags& flags, const models::ModelSource& source,
               exports::ExportFormat format) {
  if (!flags.dtype.empty()) return dtype_from_name(flags.dtype);
  if (format == exports::ExportFormat::peft) return kFloat32;
  return exports::default_export_dtype(source.config, source.stored_dtype);
}

// What was exported in the end: of a run folder or a pointer one of its checkpoints, or its export.
std::string place_of_source(const models::ModelSource& source, const ExportFlags& flags) {
  return source.read_from.empty() ? flags.path : source.read_from.front().string();
}

void show_export(const exports::ExportReport& report, const ExportFlags& flags,
                 const models::ModelSource& source, DType dtype, const Session& session) {
  nlohmann::ordered_json difference = nullptr, step = nullptr, distance = nullptr;
  if (report.logit_difference) difference = *report.logit_difference;
  if (source.step) step = *source.step;
  if (const auto& nf4 = report.nf4_distance) distance = {{"max", nf4->max()}, {"rms", nf4->rms()}};
  if (session.json)
    emit_json("result",
              {{"folder", report.folder.string()},
               {"source", place_of_source(source, flags)},
               {"step", step},
               {"format", flags.format},
               {"dtype", name_of(dtype)},
               {"tensors", report.num_tensors},
               {"bytes", report.bytes},
               {"files", report.files},
               {"verified", report.verified},
               {"logit_difference", difference},
               {"nf4_base", report.nf4_base},
               {"nf4_distance", distance}},
              false);
  else if (!session.quiet)
    std::cout << fmt::format(
        "{}: {}{}: {}\n", report.folder.string(), place_of_source(source, flags),
        source.step ? fmt::format(", step {}", *source.step) : "", written_text(report));
}

int run_export(const ExportFlags& flags, const Session& session) {
  const models::ModelSource source =
      models::open_model_source(flags.path, comm::process_environment(), 0, flags.base_model);
  exports::ExportSpec spec;
  spec.out = flags.out;
  spec.format = exports::export_format(flags.format);
  spec.dtype = dtype_of(flags, source, spec.format);
  spec.max_shard_bytes = flags.max_shard_bytes;
  spec.keep_mtp = flags.keep_mtp;
  spec.verify = !flags.no_verify;
  spec.base_model = flags.base_model;
  spec.card.base_model = source.base_model.empty() ? flags.path : source.base_model;
  spec.card.source = flags.path;
  const auto report = exports::export_source(source, spec, flags.merge_lora);
  show_export(report, flags, source, spec.dtype, session);
  return 0;
}

void add_common(CLI::App* command, ExportFlags& flags) {
  command
      ->add_option("--out", flags.out, "Folder to write; an older export of wmtp there is replaced")
      ->required()
      ->type_name("D");
  command
      ->add_option("--base-model", flags.base_model,
                   "Base of the adapter (default: what its configuration names)")
      ->type_name("P");
  add_dtype_option(*command, flags.dtype, "Default: the model's own; of adapters fp32");
}

}  // namespace

std::string written_text(const exports::ExportReport& report) {
  return fmt::format("{} tensors, {} bytes in {}; {}{}", report.num_tensors, report.bytes,
                     fmt::join(report.files, ", "),
                     !report.verified ? "not verified"
                     : report.logit_difference
                         ? fmt::format("read back, logits within {:.2g}", *report.logit_difference)
                         : "read back",
                     exports::nf4_text(report));
}

void add_dtype_option(CLI::App& command, std::string& dtype, const char* help) {
  command.add_option("--dtype", dtype, help)
      ->type_name("bf16|fp16|fp32")
      ->check(CLI::IsMember({"bf16", "bfloat16", "fp16", "float16", "fp32", "float32"}));
}

void add_checkpoint_export(CLI::App& checkpoint, Session& session) {
  CLI::App* command =
      checkpoint.add_subcommand("export", "Write a model in the files of other tools");
  command->alias("convert");
  auto flags = std::make_shared<ExportFlags>();
  command
      ->add_option(
          "path", flags->path,
          "Model, PEFT or run folder, checkpoint or a pointer to one, folder of checkpoints (the "
          "newest), weights file, org/name in the local cache, or a preset")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("--format", flags->format,
                   "hf: transformers, vLLM, llama.cpp; peft: adapters; pt: torch.load")
      ->required()
      ->type_name("hf|peft|pt")
      ->check(CLI::IsMember({"hf", "peft", "pt"}));
  add_common(command, *flags);
  command
      ->add_option("--max-shard-size", flags->max_shard_bytes,
                   "Largest weights file of hf (default 5GB); a larger tensor has its own")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  command->add_flag("--keep-mtp", flags->keep_mtp,
                    "hf: extra prediction heads too, in a file of their own");
  command->add_flag("--merge-lora", flags->merge_lora,
                    "Build the adapters into the weights; extra heads stay with --keep-mtp only");
  command->add_flag("--no-verify", flags->no_verify,
                    "Do not read the export back to compare tensors and logits");
  command->footer(
      "  wmtp checkpoint export models/llama-mtp --format hf --out exported --keep-mtp\n"
      "  wmtp checkpoint export adapter --format hf --merge-lora --base-model models/llama --out "
      "merged");
  command->callback([flags, &session] {
    session.run = [flags, &session] { return run_export(*flags, session); };
  });
}

void add_checkpoint_merge_lora(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "merge-lora",
      "Build an adapter into its base, extra heads included, as a folder for transformers (export "
      "--format hf --merge-lora --keep-mtp)");
  auto flags = std::make_shared<ExportFlags>();
  flags->format = "hf";
  flags->merge_lora = flags->keep_mtp = true;
  command->add_option("path", flags->path, "PEFT folder, a LoRA run, or a checkpoint of one")
      ->required()
      ->type_name("PATH");
  add_common(command, *flags);
  command->footer(
      "  wmtp checkpoint merge-lora adapter --base-model models/llama --out merged\n"
      "  wmtp checkpoint merge-lora runs/lora/checkpoints/qwen3-best --out merged --dtype bf16");
  command->callback([flags, &session] {
    session.run = [flags, &session] { return run_export(*flags, session); };
  });
}

}  // namespace wmtp::cli
