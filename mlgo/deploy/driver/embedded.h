// Objects that carry the bitcode of their source, see `embedded.py`.
#ifndef MLGO_EMBEDDED_H
#define MLGO_EMBEDDED_H

#include "text.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace embedded {

// What makes clang compile as ever, and keep the bitcode before optimization in the object.
inline const char *const Options[] = {"-fno-lto", "-Xclang", "-fembed-bitcode=bitcode"};

// Linkers leave the section out of what they link, and what other tools write has no mark. The section has another name
// than LLVM's, by which GNU tools with a plugin for LLVM would take the object for bitcode alone.
template <class Header, class Section> bool mark(char *Bytes, size_t Size) {
  Header *const File = reinterpret_cast<Header *>(Bytes);
  if (Size < sizeof(Header) || File->e_shentsize != sizeof(Section) || File->e_shoff > Size ||
      (Size - File->e_shoff) / sizeof(Section) < File->e_shnum || File->e_shstrndx >= File->e_shnum)
    return false;
  Section *const Sections = reinterpret_cast<Section *>(Bytes + File->e_shoff);
  const char Name[] = ".llvmbc", Own[] = ".mlgobc", Mark[] = {'m', 'l', 'g', 'o'};
  for (size_t I = 0; I < File->e_shnum; ++I) {
    const size_t At = Sections[File->e_shstrndx].sh_offset + Sections[I].sh_name;
    if (At < Size && Size - At >= sizeof Name && memcmp(Bytes + At, Name, sizeof Name) == 0) {
      memcpy(Bytes + At, Own, sizeof Own);
      Sections[I].sh_type = 0x6fff4c0c; // SHT_LLVM_LTO
      Sections[I].sh_flags |= SHF_EXCLUDE;
      memcpy(File->e_ident + EI_PAD, Mark, sizeof Mark);
      return true;
    }
  }
  return false;
}

// Marks an object. Returns whether it carries bitcode and is little-endian ELF.
inline bool mark(const char *Path) {
  const int File = open(Path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct stat State;
  bool Found = false;
  if (File >= 0 && fstat(File, &State) == 0 && S_ISREG(State.st_mode) && State.st_size > EI_NIDENT) {
    const size_t Size = State.st_size;
    void *const Mapped = mmap(nullptr, Size, PROT_READ | PROT_WRITE, MAP_SHARED, File, 0);
    if (Mapped != MAP_FAILED) {
      char *const Bytes = static_cast<char *>(Mapped);
      if (memcmp(Bytes, ELFMAG, SELFMAG) == 0 && Bytes[EI_DATA] == ELFDATA2LSB)
        Found = Bytes[EI_CLASS] == ELFCLASS64 ? mark<Elf64_Ehdr, Elf64_Shdr>(Bytes, Size)
                                              : mark<Elf32_Ehdr, Elf32_Shdr>(Bytes, Size);
      munmap(Mapped, Size);
    }
  }
  if (File >= 0)
    close(File);
  return Found;
}

} // namespace embedded

#endif
