#include "wmtp/cli/launcher/launch_notes.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace wmtp::cli {
namespace {

TEST(RunNotes, TheNewestCheckpointOfTheNotedModelCounts) {
  const test::TempDir folder;
  const std::filesystem::path saves = folder / "saves";
  EXPECT_FALSE(newest_noted_step(folder.path())) << "no note";
  note_checkpoints(folder.path(), saves, "tiny");
  EXPECT_FALSE(newest_noted_step(folder.path())) << "no folder yet";
  for (const char* name : {"tiny-5steps", "tiny-20steps", "other-90steps", "tiny-30steps.bad-1",
                           ".tiny-40steps.tmp-1"}) {
    std::filesystem::create_directories(saves / name);
    test::write_file(saves / name / "manifest.json", "{}");
  }
  EXPECT_EQ(newest_noted_step(folder.path()), 20);
  note_checkpoints(folder.path(), saves, "other");
  EXPECT_EQ(newest_noted_step(folder.path()), 90) << "a later note replaces it";
  test::write_file(folder / "checkpoints.json", "{");
  EXPECT_FALSE(newest_noted_step(folder.path())) << "a note that cannot be read";
}

}  // namespace
}  // namespace wmtp::cli
