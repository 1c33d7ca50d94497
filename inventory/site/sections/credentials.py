"""References to the secrets of a site file."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from inventory.catalog import Catalog
from inventory.site.messages import MISSING, nearest
from inventory.site.rules import rule
from inventory.site.sections.software import Scheduler
from inventory.site.values import DeviceSecretReference, SecretReference, Section, Slug, Text, absent
from inventory.site.yaml_source import Problem


class SnmpCredentials(Section):
    """SNMPv3 authPriv user of PDUs and switches."""

    user: Text = Field(description="SNMPv3 user name.")
    auth: SecretReference = Field(description="Reference to the authentication passphrase.")
    priv: SecretReference = Field(description="Reference to the privacy passphrase.")
    auth_protocol: Literal["SHA1", "SHA224", "SHA256", "SHA384", "SHA512"] = Field(
        default="SHA256", description="Authentication protocol; what the devices speak."
    )
    priv_protocol: Literal["AES128", "AES192", "AES256"] = Field(default="AES128", description="Privacy protocol.")


class FactoryAccount(Section):
    """The account that the BMCs are delivered with; its password is replaced when a server is taken over."""

    user: Text = Field(description="Account name.")
    password: DeviceSecretReference = Field(
        description="Reference to the factory password. Servers have their own, on a label: name them by {device} or {serial} "
        "in the reference, or by a table, table:PATH#COLUMN, whose rows are found by the columns device, serial or mac."
    )


class BmcCredentials(Section):
    """Redfish account of the BMCs."""

    user: Text = Field(description="Account name.")
    password: DeviceSecretReference = Field(
        description="Reference to the password that the account gets; like the factory's, one for all BMCs or one for each."
    )
    ca: Text = Field(
        description="Path of the CA certificate that signed the BMCs' TLS certificates; like every path here relative to "
        "the site file's folder, with ~ as the home of whoever runs the command."
    )
    factory: FactoryAccount | None = Field(
        default=None, description="Account as delivered; its login must be refused once the site's account is in place."
    )


class SshCredentials(Section):
    """Key login over SSH."""

    user: Text = Field(description="Login name.")
    key: SecretReference = Field(description="file: reference to the private key.")
    known_hosts: Text = Field(
        description="Path of the known_hosts file (relative to this file, ~ is expanded); unknown host keys are refused."
    )
    host_keys: Literal["first-use", "pinned"] = Field(
        default="first-use",
        description="How the keys in known_hosts were enrolled. `pinned`: compared with what the factory or the installer "
        "wrote down; a line whose comment says first-use is left out. `first-use`: accepted when they were first seen, which "
        "proves no device at go-live.",
    )


class SwitchCredentials(SshCredentials):
    """Account on the network operating systems. Those with a REST interface (Cumulus Linux, Arista EOS) take its password too."""

    password: SecretReference | None = Field(
        default=None,
        exclude_if=absent,
        description="Reference to the account's password, for compute switches that are configured over HTTPS.",
    )
    ca: Text | None = Field(
        default=None,
        exclude_if=absent,
        description="Path of the CA certificate (PEM) that signed the switches' TLS certificates; mandatory with `password`.",
    )


class DatabaseCredentials(Section):
    """Account of a daemon in its database."""

    password: SecretReference = Field(description="Reference to the password.")


class EvidenceCredentials(Section):
    """Who signs what the checks record."""

    key: SecretReference = Field(description="Reference to the ed25519 signing key.")
    recorder: SecretReference | None = Field(
        default=None,
        description="Reference to the ed25519 key that signs position of each line and head of the log, pinned for the role "
        "recorder in attest.roles; without it `key` does both.",
    )
    role: Slug = Field(
        default="lab",
        description="Role of that key. lab counts in rehearsals only; another one counts if attest.roles pins the key.",
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A site that names no recorder keeps the hash of its plan from before there was one."""
        made: dict[str, Any] = handler(self)
        return {key: value for key, value in made.items() if key != "recorder" or value is not None}


class AlertCredentials(Section):
    """Where alerts go."""

    webhook: SecretReference = Field(
        description="Reference to the URL that Alertmanager posts alerts to; a secret, since it often carries a token."
    )


class NotificationCredentials(Section):
    """Webhooks of chat programs, on a site of Kubernetes: where accounts hear how their jobs ended or were queued again (S164)."""

    accounts: dict[Slug, SecretReference] = Field(
        default={},
        description="By account, reference to the URL that its events are posted to; a secret, since who knows it can post there.",
    )
    default: SecretReference | None = Field(
        default=None, description="The same for accounts without one of their own; without it these hear nothing."
    )
    operators: SecretReference | None = Field(
        default=None, description="Reference to the URL that is told which nodes are back in service."
    )


class Credentials(Section):
    """References to secrets, never their values."""

    snmp: SnmpCredentials = Field(description="PDUs and switches.")
    bmc: BmcCredentials = Field(description="BMCs.")
    ssh: SshCredentials = Field(description="Nodes.")
    switch: SwitchCredentials = Field(description="Switches.")
    evidence: EvidenceCredentials = Field(description="Evidence signing.")
    slurmdbd: DatabaseCredentials | None = Field(
        default=None, description="Slurm's accounting daemon in its database; mandatory where scheduler.kind is slurm."
    )
    alerts: AlertCredentials | None = Field(
        default=None, description="On-call: without it alerts are seen in Alertmanager only."
    )
    notifications: NotificationCredentials | None = Field(
        default=None,
        exclude_if=absent,
        description="Users and operators: without it nobody is told of jobs and nodes. For kind kubernetes; Slurm has --mail-type.",
    )

    @property
    def tells_anybody(self) -> bool:
        """Whether anybody is told of jobs and nodes."""
        told = self.notifications
        return told is not None and bool(told.accounts or told.default or told.operators)


@rule("scheduler", "credentials")
def slurm_has_a_database_account(
    catalog: Catalog, scheduler: Scheduler, credentials: Credentials | None
) -> Iterator[Problem]:
    if credentials is not None and scheduler.kind == "slurm" and credentials.slurmdbd is None:
        yield Problem(
            ("credentials", "slurmdbd"),
            MISSING,
            "",
            "the password of Slurm's accounting daemon, since scheduler.kind is slurm",
            "add 'slurmdbd: {password: \"file:...\"}' in credentials",
        )


@rule("scheduler", "credentials")
def notifications_are_for_accounts_on_kubernetes(
    catalog: Catalog, scheduler: Scheduler, credentials: Credentials | None
) -> Iterator[Problem]:
    given = None if credentials is None else credentials.notifications
    if given is None:
        return
    if scheduler.kind != "kubernetes":
        yield Problem(
            ("credentials", "notifications"),
            "an option of Kubernetes",
            f"scheduler.kind {scheduler.kind}",
            "no such key: Slurm sends mail itself, where a job asks for it (--mail-type) and slurm.conf has a MailProg",
            "delete notifications",
        )
        return
    known = [account.name for account in scheduler.accounts]
    for name, reference in given.accounts.items():
        if name not in known:
            yield Problem(
                ("credentials", "notifications", "accounts", name),
                "a webhook of an unknown account",
                reference.split(":")[0] + ":…",
                f"one of {', '.join(known) or 'no account: scheduler.accounts is empty'}",
                "name an account of scheduler.accounts, or use `default` for all others",
                nearest=nearest(name, known),
            )


@rule("credentials")
def ssh_keys_are_files(catalog: Catalog, credentials: Credentials | None) -> Iterator[Problem]:
    if credentials is None:
        return
    for name in ("ssh", "switch"):
        key = getattr(credentials, name).key
        if not key.startswith("file:"):
            yield Problem(
                ("credentials", name, "key"),
                "not a file",
                f"a reference to {key.split(':')[0]}:",
                "file:PATH, since OpenSSH reads its key from a file",
                "write the key's path as file:PATH",
            )


@rule("credentials")
def switch_password_has_a_ca(catalog: Catalog, credentials: Credentials | None) -> Iterator[Problem]:
    if credentials is None:
        return
    switch = credentials.switch
    for given, absent_key in (("password", "ca"), ("ca", "password")):
        if getattr(switch, given) and not getattr(switch, absent_key):
            yield Problem(
                ("credentials", "switch", absent_key),
                MISSING,
                "",
                "both `password` and `ca`, or neither: a password is sent only to a switch whose certificate is verified",
                f"add {absent_key} in credentials.switch",
            )
