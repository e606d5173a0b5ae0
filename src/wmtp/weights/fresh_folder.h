// A folder that appears under its name whole and durable, or not at all: filled beside its target
// under another name, then renamed. An older folder of that name is replaced in one step, so
// nothing of it is left among the new files.
#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

namespace wmtp::weights {

class FreshFolder {
 public:
  // Makes the folder to fill. An existing target may be replaced if it is a folder of which
  // `replaceable` accepts every entry's name, and which is empty or holds a file `mark` (empty: no
  // mark is needed); otherwise Error config names what is in the way.
  // Failures of the file system, here and below, are ErrorKind::io.
  using Replaceable = std::function<bool(std::string_view name)>;
  // The look alone: throws as the constructor would, makes nothing.
  static void require_replaceable(const std::filesystem::path& target,
                                  const Replaceable& replaceable, std::string_view mark = {});
  FreshFolder(const std::filesystem::path& target, const Replaceable& replaceable,
              std::string_view mark = {});
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  // Without commit() everything in path() is removed and the target stays as it was.
  ~FreshFolder();

  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }
  // BLOCKS until the folder is on the disk under its name. REQUIRES that the files in it are on
  // the disk. May be called once.
  void commit();

 private:
  void replace();

  std::filesystem::path target_, temporary_;
  bool committed_ = false;
};

}  // namespace wmtp::weights
