#include "wmtp/core/procfs.h"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(CgroupFolders, InnerGroupsFirst) {
  const auto paths = [](std::string_view text) {
    std::vector<std::string> found;
    for (const CgroupFolder& folder : cgroup_folders(text, "memory", "/cg"))
      found.push_back((folder.unified ? "2 " : "1 ") + folder.path);
    return found;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(paths("0::/a/b\n"), (Paths{"2 /cg/a/b", "2 /cg/a", "2 /cg"}));
  EXPECT_EQ(paths("4:memory:/a\n3:pids:/b\n0::/"),
            (Paths{"1 /cg/memory/a", "1 /cg/memory", "1 /cg", "2 /cg"}));
  EXPECT_EQ(paths("\n:\n::\nmemory\n9:name=systemd:/x"), (Paths{"2 /cg"}));
}

}  // namespace
}  // namespace wmtp
