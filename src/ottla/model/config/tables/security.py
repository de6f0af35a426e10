"""Broker configs: principals, TLS, SASL and delegation tokens. What they are about is still to come."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance, Update
from ottla.model.config.tables.topic import DAY, HOUR
from ottla.model.config.validators import ENTRIES, at_least, between, one_of

BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.PASSWORD,
    ConfigType.SHORT,
    ConfigType.STRING,
)
HIGH, LOW = Importance.HIGH, Importance.LOW
PER_BROKER = Update.PER_BROKER

PRINCIPALS: Final = (
    ConfigDef("principal.builder.class", CLASS,
              "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
              "The class that makes a principal of what a connection has shown about itself.", update=PER_BROKER),
    ConfigDef("connections.max.reauth.ms", LONG, 0,
              "How long a login over SASL is good for; then the client must log in again. 0 for ever."),
    ConfigDef("security.providers", STRING, None, "Classes that add security algorithms to a JVM.", importance=LOW,
              no_effect=True),
)  # fmt: skip

TLS: Final = (
    ConfigDef("ssl.client.auth", STRING, "none", "Whether clients must, may or need not show a certificate.",
              one_of("required", "requested", "none"), PER_BROKER),
    ConfigDef("ssl.principal.mapping.rules", STRING, "DEFAULT",
              "Rules that turn a certificate's distinguished name into a user's name.", importance=LOW),
    ConfigDef("ssl.allow.dn.changes", BOOLEAN, False,
              "Whether a new certificate of a running node may have another distinguished name.", importance=LOW),
    ConfigDef("ssl.allow.san.changes", BOOLEAN, False,
              "Whether a new certificate of a running node may have other alternative names.", importance=LOW),
    ConfigDef("ssl.protocol", STRING, "TLSv1.3", "The newest version of TLS that is offered.", update=PER_BROKER),
    ConfigDef("ssl.provider", STRING, None, "The JVM's provider of TLS.", update=PER_BROKER, no_effect=True),
    ConfigDef("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken.", ENTRIES,
              PER_BROKER),
    ConfigDef("ssl.keystore.type", STRING, "JKS", "The format of the key store: JKS, PKCS12 or PEM.",
              update=PER_BROKER),
    ConfigDef("ssl.keystore.location", STRING, None, "The file with this node's key and certificates.",
              update=PER_BROKER),
    ConfigDef("ssl.keystore.password", PASSWORD, None, "The password of that file.", update=PER_BROKER),
    ConfigDef("ssl.key.password", PASSWORD, None, "The password of the private key.", update=PER_BROKER),
    ConfigDef("ssl.keystore.key", PASSWORD, None, "The private key itself, as PEM.", update=PER_BROKER),
    ConfigDef("ssl.keystore.certificate.chain", PASSWORD, None, "The certificates themselves, as PEM.",
              update=PER_BROKER),
    ConfigDef("ssl.truststore.type", STRING, "JKS", "The format of the trust store: JKS, PKCS12 or PEM.",
              update=PER_BROKER),
    ConfigDef("ssl.truststore.location", STRING, None, "The file with the certificates that are trusted.",
              update=PER_BROKER),
    ConfigDef("ssl.truststore.password", PASSWORD, None, "The password of that file.", update=PER_BROKER),
    ConfigDef("ssl.truststore.certificates", PASSWORD, None, "The trusted certificates themselves, as PEM.",
              update=PER_BROKER),
    ConfigDef("ssl.keymanager.algorithm", STRING, "SunX509", "The JVM's algorithm for its key manager.",
              update=PER_BROKER, no_effect=True),
    ConfigDef("ssl.trustmanager.algorithm", STRING, "PKIX", "The JVM's algorithm for its trust manager.",
              update=PER_BROKER, no_effect=True),
    ConfigDef("ssl.endpoint.identification.algorithm", STRING, "https",
              "How a node's name is checked against its certificate; empty does not check.", update=PER_BROKER,
              importance=LOW),
    ConfigDef("ssl.secure.random.implementation", STRING, None, "The JVM's source of random numbers.",
              update=PER_BROKER, importance=LOW, no_effect=True),
    ConfigDef("ssl.cipher.suites", LIST, (), "The cipher suites allowed; none given leaves it to TLS.", ENTRIES,
              PER_BROKER),
    ConfigDef("ssl.engine.factory.class", CLASS, None, "A class of the JVM that makes its TLS engines.",
              update=PER_BROKER, importance=LOW, no_effect=True),
)  # fmt: skip

SASL: Final = (
    ConfigDef("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", "The mechanism between nodes.",
              update=PER_BROKER),
    ConfigDef("sasl.mechanism.controller.protocol", STRING, "GSSAPI", "The mechanism towards controllers.",
              importance=HIGH),
    ConfigDef("sasl.enabled.mechanisms", LIST, ("GSSAPI",), "The mechanisms that clients may use.", ENTRIES,
              PER_BROKER),
    ConfigDef("sasl.jaas.config", PASSWORD, None, "How a login is checked, and this node's own, in JAAS form.",
              update=PER_BROKER),
    ConfigDef("sasl.server.callback.handler.class", CLASS, None, "A class that checks what clients show."),
    ConfigDef("sasl.client.callback.handler.class", CLASS, None, "A class that gives what this node shows to others."),
    ConfigDef("sasl.server.max.receive.size", INT, 512 << 10, "The largest message of a login."),
    ConfigDef("sasl.login.class", CLASS, None, "A class that logs this node in."),
    ConfigDef("sasl.login.callback.handler.class", CLASS, None, "A class that is asked during that login."),
    ConfigDef("sasl.login.refresh.window.factor", DOUBLE, 0.8, "The share of a login's life after which it is renewed.",
              update=PER_BROKER),
    ConfigDef("sasl.login.refresh.window.jitter", DOUBLE, 0.05, "What is added to that at random.", update=PER_BROKER),
    ConfigDef("sasl.login.refresh.min.period.seconds", SHORT, 60, "The shortest time between two renewals.",
              update=PER_BROKER),
    ConfigDef("sasl.login.refresh.buffer.seconds", SHORT, 300, "How long before its end a login is renewed at latest.",
              update=PER_BROKER),
    ConfigDef("sasl.login.connect.timeout.ms", INT, None, "How long connecting to a provider of logins may take.",
              importance=LOW),
    ConfigDef("sasl.login.read.timeout.ms", INT, None, "How long an answer of that provider may take.",
              importance=LOW),
    ConfigDef("sasl.login.retry.backoff.ms", LONG, 100, "The pause before that provider is asked again.",
              importance=LOW),
    ConfigDef("sasl.login.retry.backoff.max.ms", LONG, 10_000, "The limit up to which that pause grows.",
              importance=LOW),
)  # fmt: skip

KERBEROS: Final = (
    ConfigDef("sasl.kerberos.service.name", STRING, None, "The name of the service in Kerberos.", update=PER_BROKER),
    ConfigDef("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",),
              "Rules that turn a Kerberos principal into a user's name.", ENTRIES, PER_BROKER),
    ConfigDef("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "The command that gets a ticket.",
              update=PER_BROKER),
    ConfigDef("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8,
              "The share of a ticket's life after which it is renewed.", update=PER_BROKER),
    ConfigDef("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, "What is added to that at random.",
              update=PER_BROKER),
    ConfigDef("sasl.kerberos.min.time.before.relogin", LONG, 60_000, "The shortest time between two attempts.",
              update=PER_BROKER),
)  # fmt: skip

OAUTH: Final = (
    ConfigDef("sasl.oauthbearer.jwt.retriever.class", CLASS,
              "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "The class that gets tokens."),
    ConfigDef("sasl.oauthbearer.jwt.validator.class", CLASS,
              "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "The class that checks tokens."),
    ConfigDef("sasl.oauthbearer.scope", STRING, None, "The scope asked for in a token."),
    ConfigDef("sasl.oauthbearer.client.credentials.client.id", STRING, None, "This node's id at the issuer."),
    ConfigDef("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, "Its secret there."),
    ConfigDef("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", "How assertions are signed.",
              one_of("ES256", "RS256", ignore_case=True)),
    ConfigDef("sasl.oauthbearer.assertion.claim.aud", STRING, None, "The claim aud of assertions."),
    ConfigDef("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, "How long an assertion is good for.",
              between(0, 86_400), importance=LOW),
    ConfigDef("sasl.oauthbearer.assertion.claim.iss", STRING, None, "The claim iss of assertions."),
    ConfigDef("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, "Whether assertions carry an id."),
    ConfigDef("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, "How far back an assertion begins to be good.",
              between(0, 3600), importance=LOW),
    ConfigDef("sasl.oauthbearer.assertion.claim.sub", STRING, None, "The claim sub of assertions."),
    ConfigDef("sasl.oauthbearer.assertion.file", STRING, None, "A file with an assertion made elsewhere."),
    ConfigDef("sasl.oauthbearer.assertion.private.key.file", STRING, None, "The key that signs assertions."),
    ConfigDef("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, "The password of that key."),
    ConfigDef("sasl.oauthbearer.assertion.template.file", STRING, None, "More claims for assertions, as JSON."),
    ConfigDef("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim that has the scope.", importance=LOW),
    ConfigDef("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim that has the subject.", importance=LOW),
    ConfigDef("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where tokens are got."),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.url", STRING, None, "Where the issuer's keys are got."),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, HOUR, "How often those keys are read again.",
              importance=LOW),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, "The pause before another attempt.",
              importance=LOW),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000,
              "The limit up to which that pause grows.", importance=LOW),
    ConfigDef("sasl.oauthbearer.clock.skew.seconds", INT, 30, "How far clocks may be apart.", importance=LOW),
    ConfigDef("sasl.oauthbearer.expected.audience", LIST, (), "The audiences whose tokens are taken.", ENTRIES,
              importance=LOW),
    ConfigDef("sasl.oauthbearer.expected.issuer", STRING, None, "The issuer whose tokens are taken.", importance=LOW),
)  # fmt: skip

TOKENS: Final = (
    ConfigDef("delegation.token.secret.key", PASSWORD, None, "The secret that signs delegation tokens, on all nodes."),
    ConfigDef("delegation.token.max.lifetime.ms", LONG, 7 * DAY, "After this a token cannot be renewed.", at_least(1)),
    ConfigDef("delegation.token.expiry.time.ms", LONG, DAY, "A token is good for this long before it is renewed.",
              at_least(1)),
    ConfigDef("delegation.token.expiry.check.interval.ms", LONG, HOUR, "How often expired tokens are looked for.",
              at_least(1), importance=LOW),
)  # fmt: skip

ROWS: Final = PRINCIPALS + TLS + SASL + KERBEROS + OAUTH + TOKENS

RELOADABLE: Final = frozenset({
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.certificates",
})  # fmt: skip
"""What a running node takes for one of its listeners (`listener.name.NAME.…`), and never for all of them at once."""
