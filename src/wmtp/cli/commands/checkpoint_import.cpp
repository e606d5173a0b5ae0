#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/exports/from_source.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

struct ImportFlags {
  std::string file, out, dtype, base_model;
};

// What the file became: how it is written and what it is used for.
struct Imported {
  bool is_adapter = false;  // else whole weights
  bool is_critic = false;   // has a value head
  DType dtype = kFloat32;
  std::vector<std::string> left_out;  // keys of the file

  std::string_view kind() const { return is_critic ? "critic" : is_adapter ? "adapter" : "model"; }
};

// Keys of the file that hold no weights. Weights under keys that nobody knows are not passed over.
std::vector<std::string> other_keys(const ImportFlags& flags) {
  const fs::path path = flags.file;
  if (!fs::exists(path))
    throw Error(ErrorKind::config, "import", fmt::format("there is no file {}", flags.file));
  if (fs::is_directory(path) || path.extension() == ".safetensors")
    throw Error(ErrorKind::config, "import", fmt::format("{} is no file of torch.save", flags.file),
                "name a .pt file; model folders are opened as they are wherever a model is named");
  const weights::ModelFolder file = weights::open_model_folder(path);
  if (!file.torch_checkpoint) return {};
  if (!file.torch_checkpoint->unknown_weights.empty())
    throw Error(ErrorKind::config, "import",
                fmt::format("{} holds tensors under keys that wmtp does not know: {}", flags.file,
                            fmt::join(file.torch_checkpoint->unknown_weights, ", ")),
                fmt::format("save the file again without them, or its weights under one of {}",
                            weights::known_state_dicts_text()));
  return file.torch_checkpoint->left_out;
}

Imported imported_as(const models::ModelSource& source, const ImportFlags& flags) {
  Imported imported;
  imported.is_adapter = source.lora && !source.changes_base;
  imported.is_critic = source.value_head.has_value();
  imported.dtype = !flags.dtype.empty()  ? dtype_from_name(flags.dtype)
                   : imported.is_adapter ? kFloat32
                                         : source.exact_dtype;
  return imported;
}

// What is typed, or written into a configuration, next.
std::string next_text(const Imported& imported, const models::ModelSource& source,
                      const std::string& folder) {
  if (imported.is_critic) return fmt::format("models.value_model.checkpoint_path: {}", folder);
  if (!imported.is_adapter) return fmt::format("models.policy.path: {}", folder);
  return fmt::format("models.policy.path: {} (on its base {})", folder,
                     printable(source.base_model));
}

void show_import(const exports::ExportReport& report, const Imported& imported,
                 const models::ModelSource& source, const ImportFlags& flags,
                 const Session& session) {
  const std::string folder = report.folder.string();
  if (session.json) {
    nlohmann::ordered_json difference = nullptr;
    if (report.logit_difference) difference = *report.logit_difference;
    emit_json("result",
              {{"folder", folder},
               {"source", flags.file},
               {"kind", imported.kind()},
               {"format", imported.is_adapter ? "peft" : "hf"},
               {"dtype", name_of(imported.dtype)},
               {"merged", source.lora && !imported.is_adapter},
               {"tensors", report.num_tensors},
               {"bytes", report.bytes},
               {"files", report.files},
               {"left_out", imported.left_out},
               {"verified", report.verified},
               {"logit_difference", difference}},
              false);
    return;
  }
  if (session.quiet) return;
  std::cout << fmt::format("{}: {} of {}, {}: {}\n", folder, imported.kind(), flags.file,
                           name_of(imported.dtype), written_text(report));
  if (source.lora && !imported.is_adapter)
    std::cout << "merged: the file has trained weights of the base beside its adapters\n";
  if (!imported.left_out.empty())
    std::cout << fmt::format("left out: {}\n",
                             printable(fmt::format("{}", fmt::join(imported.left_out, ", "))));
  std::cout << fmt::format("use it as {}\n", next_text(imported, source, folder));
}

int run_import(const ImportFlags& flags, const Session& session) {
  std::vector<std::string> left_out = other_keys(flags);
  const models::ModelSource source =
      models::open_model_source(flags.file, comm::process_environment(), 0, flags.base_model);
  Imported imported = imported_as(source, flags);
  imported.left_out = std::move(left_out);
  exports::ExportSpec spec;
  spec.out = flags.out;
  spec.format = imported.is_adapter ? exports::ExportFormat::peft : exports::ExportFormat::hf;
  spec.dtype = imported.dtype;
  spec.keep_mtp = !imported.is_adapter;
  spec.base_model = source.base_model;
  const auto report = exports::export_source(source, spec, source.lora && !imported.is_adapter);
  show_import(report, imported, source, flags, session);
  return 0;
}

}  // namespace

void add_checkpoint_import(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "import", "A .pt file of the Python project as a model folder, an adapter or a critic");
  auto flags = std::make_shared<ImportFlags>();
  command->add_option("file", flags->file, "File of torch.save; nothing in it is run")
      ->required()
      ->type_name("FILE.pt");
  command
      ->add_option("--out", flags->out,
                   "Folder to write; an older export or import of wmtp there is replaced")
      ->required()
      ->type_name("D");
  command
      ->add_option("--base-model", flags->base_model,
                   "Model that says what the file does not: sizes, tokenizer, frozen weights "
                   "(default: config.json beside the file, or the base it names)")
      ->type_name("P");
  add_dtype_option(*command, flags->dtype, "Default: the file's own; of adapters fp32");
  command->footer(
      "  wmtp checkpoint import checkpoint_final.pt --base-model models/llama --out imported\n"
      "  wmtp checkpoint import critic_best.pt --base-model models/sheared --out critic --dtype "
      "bf16");
  command->callback([flags, &session] {
    session.run = [flags, &session] { return run_import(*flags, session); };
  });
}

}  // namespace wmtp::cli
