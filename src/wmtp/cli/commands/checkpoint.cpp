#include "wmtp/cli/commands/checkpoint.h"

namespace wmtp::cli {

void add_checkpoint(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "checkpoint", "Model folders and checkpoints: look into them, export them");
  command->group(kModelGroup);
  command->require_subcommand(1);
  command->footer(
      "  wmtp checkpoint verify runs/demo --all\n"
      "  wmtp checkpoint export runs/demo --format hf --out exported\n"
      "  wmtp checkpoint push runs/demo s3://bucket/checkpoints/demo");
  add_checkpoint_list(*command, session);
  add_checkpoint_inspect(*command, session);
  add_checkpoint_export(*command, session);
  add_checkpoint_import(*command, session);
  add_checkpoint_merge_lora(*command, session);
  add_checkpoint_verify(*command, session);
  add_checkpoint_prune(*command, session);
  add_checkpoint_push(*command, session);
  add_checkpoint_pull(*command, session);
}

}  // namespace wmtp::cli
