from ._addresses import (
    Database as Database,
    hidden as hidden,
    without_password as without_password,
)
from ._cells import (
    Cells as Cells,
)
from ._databases import (
    refuse_table as refuse_table,
    write_new_table as write_new_table,
)
from ._extras import (
    pd as pd,
)
from ._finished import (
    append_synced as append_synced,
    finished_together as finished_together,
    sync_folder as sync_folder,
    write_finished as write_finished,
)
from ._frames import (
    as_written as as_written,
    chosen as chosen,
)
from ._images import (
    picture as picture,
)
from ._label_file import (
    JOURNAL as JOURNAL,
    ROWS as ROWS,
    cell_text as cell_text,
)
from ._label_lines import (
    label_lines as label_lines,
)
from ._limits import (
    unpacked_name as unpacked_name,
)
from ._locks import (
    handle_of as handle_of,
    lock as lock,
)
from ._models import (
    SavedModel as SavedModel,
    Unsavable as Unsavable,
    load_model as load_model,
    read_model as read_model,
    save_model as save_model,
)
from ._problems import (
    FileProblem as FileProblem,
    Refusal as Refusal,
    count as count,
    did_you_mean as did_you_mean,
    listed as listed,
    one_line as one_line,
    printable as printable,
    refuse_input as refuse_input,
    refusing as refusing,
    writable_file as writable_file,
    writable_folder as writable_folder,
)
from ._sources import (
    Reading as Reading,
    find as find,
    folder_of as folder_of,
)
from ._split import (
    without_gaps as without_gaps,
)
from ._tables import (
    EMPTY as EMPTY,
    Table as Table,
    read_table as read_table,
    read_target as read_target,
)
from ._writing import (
    csv_text as csv_text,
    writable_table as writable_table,
    write_table as write_table,
)
